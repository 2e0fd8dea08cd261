// What headers of the package ask of the library that they are linked with.
extern "C" const int KPUSIM_ABI_SYMBOL;
extern "C" const int KPUSIM_ABI_SYMBOL = 1;
