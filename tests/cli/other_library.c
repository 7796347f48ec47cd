/* A library that opens and has nothing of what a backend looks for in one. */
int other_library(void);
int other_library(void) {
  return 0;
}
