// accelerate_yaml.h -- the types of YAML 1.1. Private to cmd/accelerate/.
#ifndef TRIREME_CMD_ACCELERATE_ACCELERATE_YAML_H
#define TRIREME_CMD_ACCELERATE_ACCELERATE_YAML_H

#include "cmd/accelerate/accelerate_file.h"
#include "config/yaml_node.h"

// A node as JSON. An unquoted scalar has the type that PyYAML gives it, but for dates and sexagesimal numbers, which stay
// text. The caller owns the result.
json_t *accelerate_value(const yaml_node *n);

#endif
