extern "C" int ncclGetVersion(int* version) {
  *version = 21709;
  return 0;
}
