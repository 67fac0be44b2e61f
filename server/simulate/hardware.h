// Hardware: the numbers of one accelerator (or processor) that a step's cost follows from.
//
// Built-in profiles, and the sources of their numbers (vendors' data sheets; arithmetic is that of dense FP16/BF16
// matrix products with FP32 accumulation, half of what a sheet gives "with sparsity"; a link is one direction of what
// connects the devices of one machine):
//
//   H100       NVIDIA H100 Tensor Core GPU Datasheet, SXM: 989 TFLOP/s, 3.35 TB/s, 80 GB, NVLink 900 GB/s both ways
//   H200       NVIDIA H200 Tensor Core GPU Datasheet, SXM: 989 TFLOP/s, 4.8 TB/s, 141 GB, NVLink 900 GB/s
//   A100-80GB  NVIDIA A100 Tensor Core GPU Datasheet, SXM: 312 TFLOP/s, 2.039 TB/s, 80 GB, NVLink 600 GB/s
//   L4         NVIDIA L4 Tensor Core GPU Datasheet: 121 TFLOP/s, 300 GB/s, 24 GB, PCIe Gen4 x16 64 GB/s
//   L40S       NVIDIA L40S Datasheet: 362 TFLOP/s, 864 GB/s, 48 GB, PCIe Gen4 x16 64 GB/s
//   MI300X     AMD Instinct MI300X Data Sheet: 1,307 TFLOP/s, 5.3 TB/s, 192 GB, Infinity Fabric 128 GB/s a link,
//              seven links
//   CPU-2      two cores of an Intel Xeon with AVX2: 0.19 TFLOP/s and 14 GB/s, from this project's own kernels
//              (README, Figures). Its steps are no roofline: for predictions give the calibration of the machine itself
//              (--calibration).
//
// Efficiencies are estimates of ours, the least certain numbers here: what part of each peak the kernels of a serving
// engine reach, over all matrix shapes of a model. Memory: 0.85, since long sequential reads of weights come close to
// the peak of HBM; 0.75 on MI300X, whose many memory channels take more to fill. Arithmetic: 0.65, since products of a
// step's few hundred to thousand rows fill a large device unevenly; 0.5 on L4, whose 72 W hold its clock below the one
// that the sheet's peak is for, and on MI300X, whose matrix libraries reach a smaller part of a higher peak.
// The overhead of a step (launches, synchronisation, sampling, planning) is 0.5 ms on accelerators, likewise estimated.
// To use numbers of your own, measured ones best of all, write a profile file: see parse_hardware().
//
// Thread-safety: plain values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/status.h"

namespace twostroke::simulate {

constexpr double kPricePerHourMax = 1e6;

struct Hardware {
  std::string name;
  double peak_flops = 0;             // FLOP/s of one device
  double peak_bytes_per_second = 0;  // of the memory that holds weights and KV
  double memory_bytes = 0;
  double compute_efficiency = 0.65;  // (0, 1]
  double memory_efficiency = 0.85;   // (0, 1]
  double step_overhead_us = 500;
  double link_bytes_per_second = 0;      // one direction, between devices of one machine; 0: it has none
  double link_latency_us = 10;           // of one exchange over it
  std::optional<double> price_per_hour;  // of one device, in any currency
  bool accelerator = false;              // surely: a profile file does not say
};

std::span<const Hardware> hardware_profiles();

// A built-in profile by name (in any case), or, when `name` ends in .json, the profile in that file.
// Errors: kNotFound with the names that there are; those of parse_hardware().
Result<Hardware> find_hardware(const std::string& name);

// A profile as a JSON object; `source` names it in errors. Keys: "name", "peak_tflops", "bandwidth_gb_per_s",
// "memory_gb" are required; "compute_efficiency", "memory_efficiency", "step_overhead_us", "link_gb_per_s",
// "link_latency_us", "price_per_hour" are optional; no others. A GB is 1e9 bytes.
// What times are divided by is 1e-6 at least, so that all of them are finite.
Result<Hardware> parse_hardware(std::string_view json, const std::string& source);

}  // namespace twostroke::simulate
