// Plain C++ functions as call programs.
//
//   int Square(int x) { return x * x; }
//   PILLION_FUNCTION(Square);            // in a .cc file; clients may then say client.Call(Square, 4)
//
// Parameters and result are values of types that pillion/serialize.h knows; the result may also be a Result<T>, a
// Status or void. An exception that the function throws fails the task with its text. The program's name is the text
// in the macro. Workers find it in the shared library that contains the macro (TaskSpec.library).
#ifndef PILLION_FUNCTION_H_
#define PILLION_FUNCTION_H_

#include <exception>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "pillion/serialize.h"
#include "pillion/side_task.h"

namespace pillion {

// What a call of a registered function needs to be submitted.
struct FunctionName {
  std::string program;
  std::string library;  // absolute path of the shared library it is in; empty when it is in the main program
};
// kNotFound, saying how to register it, for a function without PILLION_FUNCTION.
Result<FunctionName> FindFunction(const void* function);

namespace function_internal {

template <typename T>
struct ResultValue {
  using Type = T;
};
template <typename T>
struct ResultValue<Result<T>> {
  using Type = T;
};
template <>
struct ResultValue<Status> {
  using Type = void;
};

inline std::string EncodeNothing() {
  ValueWriter out;
  out.Null();
  return out.Take();
}

template <typename R, typename... Params>
Result<std::string> CallEncoded(R (*function)(Params...), std::string_view encoded) {
  PILLION_ASSIGN_OR_RETURN(auto arguments, DecodeValue<std::tuple<std::decay_t<Params>...>>(encoded));
  try {
    if constexpr (std::is_void_v<R>) {
      std::apply(function, std::move(arguments));
      return EncodeNothing();
    } else if constexpr (std::is_same_v<R, Status>) {
      PILLION_RETURN_IF_ERROR(std::apply(function, std::move(arguments)));
      return EncodeNothing();
    } else if constexpr (serialize_internal::IsA<R, Result>::value) {
      PILLION_ASSIGN_OR_RETURN(auto value, std::apply(function, std::move(arguments)));
      return EncodeValue(value);
    } else {
      return EncodeValue(std::apply(function, std::move(arguments)));
    }
  } catch (const std::exception& exception) {
    return TaskFailed(exception.what());
  } catch (...) {
    return TaskFailed("the function threw something that is no std::exception");
  }
}

void RememberFunction(const void* function, const char* name);

template <typename R, typename... Params>
Program FunctionProgram(const char* name, R (*function)(Params...)) {
  RememberFunction(reinterpret_cast<const void*>(function), name);
  Program program;
  program.name = name;
  program.devices = Devices::kCpuAndCuda;
  program.call = [function](std::string_view encoded) { return CallEncoded(function, encoded); };
  return program;
}

}  // namespace function_internal

#define PILLION_FUNCTION(function)                                                             \
  static const ::pillion::ProgramRegistration PILLION_JOIN(pillion_program_, __COUNTER__)(     \
      ::pillion::function_internal::FunctionProgram(#function, &function))

}  // namespace pillion

#endif  // PILLION_FUNCTION_H_
