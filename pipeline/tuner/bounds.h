// Lower bounds on the makespan of every plan: any partition into contiguous stages, any placement,
// any order, one copy of the weights, with or without communication and caps.
#ifndef PILLION_PIPELINE_TUNER_BOUNDS_H_
#define PILLION_PIPELINE_TUNER_BOUNDS_H_

#include <string>

#include "pipeline/tuner/problem.h"

namespace pillion::pipeline::tuner {

struct LowerBound {
  Ticks ticks = 0;
  std::string name;
};

// The largest of:
//  "work"     all work over all devices, and before it the time until the first micro-batch reaches
//  the k-th
//             device: that device has no layer before layer k, so it idles at least the forwards of
//             k layers. (Without a split backward the same holds at the end.)
//  "packing"  the same, with whole layers: no packing of the layers into devices of that capacity
//  exists. "chain"    one micro-batch through all forwards and back, while the layer that takes
//  longest serves the others. "layer"    the forwards before a layer, all that its device does for
//  it, the gradients before it. "memory"   every micro-batch holds a layer's activations from its
//  forward until its gradient can be back; the
//             areas of all fit under the caps only if the makespan is long enough.
LowerBound ProveBound(const Problem& problem);

}  // namespace pillion::pipeline::tuner

#endif  // PILLION_PIPELINE_TUNER_BOUNDS_H_
