// Which instruction sets this machine has, and the kernels of each.
#pragma once

#include <string>
#include <vector>

#include "outrider/types.h"

namespace outrider {

std::vector<std::string> usable_isas();  // best first; "portable" is always among them

// The named kernels; "" is the best. Throws std::invalid_argument where this machine cannot run them.
const Kernels& kernels_for(const std::string& name);

}  // namespace outrider
