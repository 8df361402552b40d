// A symbolic program: parses formulas into trees, differentiates and simplifies them repeatedly and
// drops the trees. Small nodes and short names, allocated and freed in tree order.
#include <memory>
#include <string>

#include "bench.h"

namespace {

struct Node;
using Tree = std::unique_ptr<Node>;

struct Node {
  char kind;  // '+', '*', 'n' number, 'v' variable
  long value = 0;
  std::unique_ptr<char[]> name;
  Tree left, right;
};

Tree Number(long value) { return Tree(new Node{'n', value, nullptr, nullptr, nullptr}); }

Tree Variable(const char* name, size_t length) {
  Tree tree(new Node{'v', 0, std::unique_ptr<char[]>(new char[length + 1]), nullptr, nullptr});
  std::memcpy(tree->name.get(), name, length);
  tree->name[length] = '\0';
  return tree;
}

Tree Binary(char kind, Tree left, Tree right) {
  return Tree(new Node{kind, 0, nullptr, std::move(left), std::move(right)});
}

// Reads `(op a b)`, a number or a name.
Tree Parse(const char*& at) {
  while (*at == ' ') ++at;
  if (*at == '(') {
    char kind = at[1];
    at += 2;
    Tree left = Parse(at);
    Tree right = Parse(at);
    while (*at != ')') ++at;
    ++at;
    return Binary(kind, std::move(left), std::move(right));
  }
  if (*at >= '0' && *at <= '9') {
    char* end;
    long value = std::strtol(at, &end, 10);
    at = end;
    return Number(value);
  }
  const char* start = at;
  while (*at >= 'a' && *at <= 'z') ++at;
  return Variable(start, static_cast<size_t>(at - start));
}

Tree Copy(const Node& tree) {
  switch (tree.kind) {
    case 'n':
      return Number(tree.value);
    case 'v':
      return Variable(tree.name.get(), std::strlen(tree.name.get()));
    default:
      return Binary(tree.kind, Copy(*tree.left), Copy(*tree.right));
  }
}

Tree Derive(const Node& tree) {
  switch (tree.kind) {
    case 'n':
      return Number(0);
    case 'v':
      return Number(tree.name[0] == 'x' ? 1 : 0);
    case '+':
      return Binary('+', Derive(*tree.left), Derive(*tree.right));
    default:
      return Binary('+', Binary('*', Derive(*tree.left), Copy(*tree.right)),
                    Binary('*', Copy(*tree.left), Derive(*tree.right)));
  }
}

bool Is(const Tree& tree, long value) { return tree->kind == 'n' && tree->value == value; }

Tree Simplify(Tree tree) {
  if (tree->kind == 'n' || tree->kind == 'v') return tree;
  Tree left = Simplify(std::move(tree->left));
  Tree right = Simplify(std::move(tree->right));
  bool product = tree->kind == '*';
  if (left->kind == 'n' && right->kind == 'n') {
    long value = product ? left->value * right->value : left->value + right->value;
    return Number(value % 1000003);
  }
  if (product && (Is(left, 0) || Is(right, 0))) return Number(0);
  if (Is(left, product ? 1 : 0)) return right;
  if (Is(right, product ? 1 : 0)) return left;
  return Binary(tree->kind, std::move(left), std::move(right));
}

size_t Size(const Node& tree) { return tree.left ? 1 + Size(*tree.left) + Size(*tree.right) : 1; }

void Write(std::string& text, size_t depth, bench::Random& random) {
  static constexpr const char* kNames[] = {"x", "xray", "y", "alpha", "acceleration", "x"};
  if (depth == 0) {
    if (random.Below(3) == 0)
      text += std::to_string(1 + random.Below(1000));
    else
      text += kNames[random.Below(6)];
    return;
  }
  text += random.Below(2) == 0 ? "(+ " : "(* ";
  Write(text, depth - 1, random);
  text += ' ';
  Write(text, random.Below(5) == 0 ? 0 : depth - 1, random);
  text += ')';
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t rounds = args.Get("rounds", 4000, 400);
  size_t depth = args.Get("depth", 9);
  bench::Random random(7);
  std::string text;
  Write(text, depth, random);
  size_t nodes = 0;
  double start = bench::Now();
  for (size_t i = 0; i < rounds; ++i) {
    const char* at = text.c_str();
    Tree tree = Parse(at);
    Tree first = Simplify(Derive(*tree));
    Tree second = Simplify(Derive(*first));
    nodes += Size(*second);
  }
  bench::Report("parser_trees", bench::Now() - start, "s");
  if (nodes == 0) bench::Fail("the derivatives are empty");
}
