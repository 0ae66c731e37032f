#include "../device.h"
