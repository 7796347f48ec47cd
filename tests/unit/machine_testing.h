/* Machines and models of the project, for tests that compute with them. */
#ifndef TESTS_UNIT_MACHINE_TESTING_H
#define TESTS_UNIT_MACHINE_TESTING_H
#include "perfmodel/hardware.h"
#include "tests/unit/testing.h"

static inline Hardware machine(const char *name) {
  Hardware hardware;
  cr_assert_eq(hardware_load(&hardware, name, data_dir, place_of_file("test"), &arena, &diag), 0);
  return hardware;
}

static inline Llm model(const char *name) {
  Llm llm;
  cr_assert_eq(llm_load(&llm, name, data_dir, place_of_file("test"), &arena, &diag), 0);
  return llm;
}
#endif
