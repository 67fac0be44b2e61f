#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/simulate/machine_spec.h"
#include "server/simulate/model_shape.h"

namespace twostroke::simulate {
namespace {

using ::testing::HasSubstr;

// Sizes as the models' own pages give them.
TEST(ModelShape, ParametersAreThoseThatTheModelsSayTheyHave) {
  const auto billions = [](const char* name) { return find_model(name, "", "f16")->shape.parameters() / 1e9; };
  EXPECT_NEAR(billions("Llama-3.1-8B"), 8.03, 0.01);
  EXPECT_NEAR(billions("Llama-3.1-70B"), 70.6, 0.1);
  EXPECT_NEAR(billions("Llama-3.1-405B"), 405.9, 0.5);
  EXPECT_NEAR(billions("Llama-3.2-1B"), 1.24, 0.01);
  EXPECT_NEAR(billions("Llama-3.2-3B"), 3.21, 0.01);
  EXPECT_NEAR(billions("Llama-2-7B"), 6.74, 0.01);
  EXPECT_NEAR(billions("Llama-2-70B"), 69.0, 0.1);
  EXPECT_NEAR(billions("Mistral-7B-v0.3"), 7.25, 0.01);
  EXPECT_NEAR(billions("Qwen2.5-0.5B"), 0.49, 0.01);
  EXPECT_NEAR(billions("Qwen2.5-7B"), 7.62, 0.01);
  EXPECT_NEAR(billions("Qwen2.5-72B"), 72.7, 0.1);
  EXPECT_NEAR(billions("SmolLM2-135M"), 0.1345, 0.001);
  EXPECT_NEAR(billions("SmolLM2-1.7B"), 1.71, 0.01);
}

TEST(ModelShape, KvBytesFollowFromHeadsAndType) {
  EXPECT_EQ(find_model("Llama-3.1-8B", "", "f16")->kv_bytes_per_token, 131072);
  EXPECT_EQ(find_model("Llama-3.1-8B", "", "fp8")->kv_bytes_per_token, 65536);
}

TEST(ModelShape, FewerBitsSaveBytesOnly) {
  const Result<Model> f16 = find_model("Llama-3.1-8B", "f16", "f16");
  const Result<Model> q4 = find_model("Llama-3.1-8B", "q4", "f16");
  EXPECT_NEAR(q4->step_bytes / f16->step_bytes, 0.28125, 1e-9);
  EXPECT_EQ(q4->shape.parameters(), f16->shape.parameters());
}

TEST(ModelShape, WrongNamesAndTypesListWhatThereIs) {
  EXPECT_THAT(find_model("Llama-9", "", "f16").status().message(), HasSubstr("Qwen2.5-7B"));
  EXPECT_THAT(find_model("Llama-3.1-8B", "q5", "f16").status().message(), HasSubstr("fp8"));
  EXPECT_THAT(find_model("Llama-3.1-8B", "", "q8").status().message(), HasSubstr("f32, f16, fp8"));
  EXPECT_EQ(find_model("none.gguf", "", "f16").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(find_model("none.json", "", "f16").status().code(), StatusCode::kNotFound);
}

TEST(ModelShape, AConfigFileSaysTheSameAsTheName) {
  const Result<ModelShape> shape = parse_model_config(
      R"({"hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 131072, "num_attention_heads": 32,
          "num_hidden_layers": 32, "num_key_value_heads": 8, "tie_word_embeddings": false, "vocab_size": 128256,
          "model_type": "llama"})",
      "config.json");
  ASSERT_TRUE(shape.ok()) << shape.status().message();
  EXPECT_EQ(shape->head_size, 128);
  EXPECT_EQ(shape->parameters(), find_model("Llama-3.1-8B", "", "f16")->shape.parameters());
}

TEST(ModelShape, DamagedConfigFilesAreRefusedByTheirKey) {
  const auto message = [](const char* text) { return parse_model_config(text, "c.json").status().message(); };
  EXPECT_THAT(message("3"), HasSubstr("JSON object"));
  EXPECT_THAT(message("{}"), HasSubstr("\"num_hidden_layers\" is missing"));
  EXPECT_THAT(message(R"({"num_hidden_layers": 1.5})"), HasSubstr("whole number"));
  EXPECT_THAT(message(R"({"num_hidden_layers": 0})"), HasSubstr("whole number"));
  EXPECT_THAT(message(R"({"num_local_experts": 8})"), HasSubstr("mixture of experts"));
}

Result<MachineSpec> machine(const char* fleet, const char* model, MachineOptions options = {}) {
  const Result<Fleet> parsed = parse_fleet(fleet, {});
  return make_machine(parsed->groups[0], *find_model(model, "", "f16"), options, SchedulerLimits{}, 1);
}

TEST(MachineSpec, KvTakesWhatTheWeightsLeave) {
  const Result<MachineSpec> spec = machine("H100", "Llama-3.1-8B");
  ASSERT_TRUE(spec.ok()) << spec.status().message();
  const double left = 0.9 * 80e9 - 8.03e9 * 2;
  EXPECT_NEAR(spec->info.block_count * 16.0 * 131072, left, 1e8);
}

TEST(MachineSpec, AModelThatDoesNotFitIsRefusedWithTheNumbersAndTheWayOut) {
  const Result<MachineSpec> spec = machine("H100", "Llama-3.1-70B");
  ASSERT_EQ(spec.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(spec.status().message(), HasSubstr("takes 141.1 GB"));
  EXPECT_THAT(spec.status().message(), HasSubstr("72.0 GB"));
  EXPECT_THAT(spec.status().message(), HasSubstr("2xH100:tp2"));
  EXPECT_TRUE(machine("4xH100:tp4", "Llama-3.1-70B").ok());
}

TEST(MachineSpec, DevicesOfAReplicaWorkAsOneAndPayForTheirLink) {
  const Result<MachineSpec> one = machine("H100", "Llama-3.1-8B");
  const Result<MachineSpec> four = machine("4xH100:tp4", "Llama-3.1-8B");
  EXPECT_EQ(four->machine.peak_flops, 4 * one->machine.peak_flops);
  EXPECT_LT(four->machine.compute_efficiency, one->machine.compute_efficiency);
  EXPECT_EQ(one->link_seconds_per_token, 0);
  // 64 all-reduces of 4,096 numbers of 2 bytes, of which 3/4 go out twice.
  EXPECT_NEAR(four->link_seconds_per_token, 64 * 1.5 * 4096 * 2 / 450e9, 1e-12);
  EXPECT_FALSE(machine("3xH100:tp3", "Llama-3.1-8B").ok());
}

TEST(MachineSpec, MemoryThatIsNotThereIsNotGiven) {
  MachineOptions options;
  options.kv_memory_mb = 100'000;
  EXPECT_THAT(machine("H100", "Llama-3.1-8B", options).status().message(), HasSubstr("--kv-memory-mb"));
  options.kv_memory_mb = 3;
  EXPECT_THAT(
      machine("H100", "Llama-3.1-8B", options).status().message(),
      HasSubstr("--kv-memory-mb asks for 0.00 GB, less than two blocks of 16 tokens of Llama-3.1-8B take: give at "
                "least 4"));
  options.kv_memory_mb = 4;
  EXPECT_EQ(machine("H100", "Llama-3.1-8B", options)->info.block_count, 2);
  options.kv_memory_mb = 1000;
  EXPECT_EQ(machine("H100", "Llama-3.1-8B", options)->info.block_count, 1000 * 1048576 / (131072 * 16));
}

}  // namespace
}  // namespace twostroke::simulate
