/* The same names from a C program, as a C compiler declares and optimises them. */
#define _GNU_SOURCE 1
#include <malloc.h>

#include "../check.h"

struct Node {
  struct Node* next;
  int value;
  char text[20];
};

static struct Node* Push(struct Node* head, int value) {
  struct Node* node = (struct Node*)malloc(sizeof(*node));
  CHECK(node != NULL);
  node->next = head;
  node->value = value;
  snprintf(node->text, sizeof(node->text), "%d", value);
  return node;
}

static void ListsSurvive(void) {
  struct Node* head = NULL;
  for (int i = 0; i < 100000; ++i) head = Push(head, i);
  for (int i = 99999; i >= 0; --i) {
    CHECK(head->value == i);
    CHECK(atoi(head->text) == i);
    struct Node* next = head->next;
    free(head);
    head = next;
  }
  CHECK(head == NULL);
}

static void FlexibleArraysGrow(void) {
  int* numbers = NULL;
  size_t room = 0;
  for (size_t i = 0; i < 1000000; ++i) {
    if (i == room) {
      room = room == 0 ? 1 : room * 2;
      numbers = (int*)realloc(numbers, room * sizeof(*numbers));
      CHECK(numbers != NULL);
    }
    numbers[i] = (int)i;
  }
  for (size_t i = 0; i < 1000000; ++i) CHECK(numbers[i] == (int)i);
  free(numbers);
}

static void MatricesAreZero(void) {
  for (size_t side = 1; side < 700; side += 13) {
    double* matrix = (double*)calloc(side * side, sizeof(double));
    CHECK(matrix != NULL);
    for (size_t i = 0; i < side * side; ++i) CHECK(matrix[i] == 0.0);
    for (size_t i = 0; i < side * side; ++i) matrix[i] = (double)i + 1;
    free(matrix);
  }
}

int main(void) {
  ListsSurvive();
  FlexibleArraysGrow();
  MatricesAreZero();
  return 0;
}
