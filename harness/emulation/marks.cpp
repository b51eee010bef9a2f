// Linked before the kernels as FIRST, and behind them: between the two lie the variables that kernels declare.
#ifdef FIRST
#define NAME(what) emulated_first_##what
#else
#define NAME(what) emulated_last_##what
#endif
extern "C" {
alignas(128) thread_local char NAME(shared)[128];
alignas(64) char NAME(zeros)[64];
alignas(64) char NAME(values)[64] = {1};
}
