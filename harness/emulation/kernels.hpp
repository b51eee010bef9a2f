// How the program calls a kernel: by its name, with arguments of which each is an array, an integer or a real number.
#pragma once
#include "device.hpp"

namespace emulated {
struct Argument {
    // p: array, i: integer, r: real number; n, f, d: such as have to be an int, a float, a double
    char kind;
    long long integer;
    double real;
    void* pointer;
};
struct Kernel {
    const char* name;
    const char* parameters;
    void (*call)(const Argument*);
};
extern const Kernel kernels[];

// Of a parameter: p: array, n: integer of the size of an int, i: another integer, f: float, d: double, o: anything else.
template <class T> constexpr char kind_of = std::is_pointer_v<T> ? 'p'
    : std::is_integral_v<T>                                      ? (sizeof(T) == sizeof(int) ? 'n' : 'i')
    : std::is_same_v<T, float>                                   ? 'f'
    : std::is_same_v<T, double>                                  ? 'd'
                                                                 : 'o';
template <class T> __attribute__((no_sanitize("thread"))) inline T converted(const Argument& argument) {
    if constexpr (std::is_pointer_v<T>) return static_cast<T>(argument.pointer);
    else if constexpr (std::is_integral_v<T>) return static_cast<T>(argument.integer);
    else if constexpr (!std::is_arithmetic_v<T>) return T();
    else return static_cast<T>(argument.kind == 'i' || argument.kind == 'n' ? argument.integer : argument.real);
}
template <auto kernel> struct Caller;
template <class... Types, void (*kernel)(Types...)> struct Caller<kernel> {
    static constexpr char parameters[] = {kind_of<std::remove_cv_t<Types>>..., 0};
    __attribute__((no_sanitize("thread"))) static void call(const Argument* arguments) {
        call_with(arguments, std::make_integer_sequence<int, sizeof...(Types)>());
    }
    template <int... places>
    __attribute__((no_sanitize("thread"))) static void call_with(
        const Argument* arguments, std::integer_sequence<int, places...>) {
        kernel(converted<std::remove_cv_t<Types>>(arguments[places])...);
    }
};
}  // namespace emulated

// The table of kernels. A name is in parentheses, because that of a template may have commas.
#define EMULATED_KERNELS extern const emulated::Kernel emulated::kernels[]
#define EMULATED_NAME(...) #__VA_ARGS__
#define EMULATED_BARE(...) __VA_ARGS__
#define EMULATED_KERNEL(name)                                                                                        \
    {EMULATED_NAME name, emulated::Caller<&EMULATED_BARE name>::parameters, emulated::Caller<&EMULATED_BARE name>::call},
