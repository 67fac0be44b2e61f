// Python's two ways to format strings: '{:>8.2f}'.format(x) and '%8.2f' % x.
#pragma once

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/text.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

// str.format: {} {0} {name} {name.attribute[key]}, !r and !s, and the format specification of strings and numbers.
Text format_braces(Runtime& runtime, const Text& format, const Arguments& arguments);

// printf style: %s %r %d %i %u %x %X %o %e %E %f %F %g %G %c %%, with flags, width, precision and %(name)s.
// `values` is a tuple of arguments, a dict for names, or a single argument.
Text format_percent(Runtime& runtime, const Text& format, const Value& values);

}  // namespace twostroke::jinja
