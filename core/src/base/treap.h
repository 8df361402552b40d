// An ordered set of objects that contain its links, so that the set allocates nothing. It is a
// search tree with the shape of a random tree: the priority of each object is a hash of its address
// (Aragon and Seidel, "Randomized search trees"). Each operation takes O(log n) steps on average.
#pragma once

#include <cstdint>

namespace granary {

template <class Node>
struct TreapLink {
  Node* left = nullptr;
  Node* right = nullptr;
};

// `Order` has a static bool Less(const Node&, const Node&).
template <class Node, TreapLink<Node> Node::*kLink, class Order>
class Treap {
 public:
  bool empty() const { return root_ == nullptr; }

  void Insert(Node* n) {
    Node** at = &root_;
    while (*at != nullptr && !Above(n, *at)) at = &Side(*at, Order::Less(*n, **at));
    Node* rest = *at;
    *at = n;
    Node** left = &(n->*kLink).left;
    Node** right = &(n->*kLink).right;
    while (rest != nullptr) {
      const bool before = Order::Less(*rest, *n);
      Node**& end = before ? left : right;
      *end = rest;
      end = &Side(rest, !before);
      rest = *end;
    }
    *left = *right = nullptr;
  }

  void Remove(Node* n) {
    Node** at = &root_;
    while (*at != n) at = &Side(*at, Order::Less(*n, **at));
    Node* left = (n->*kLink).left;
    Node* right = (n->*kLink).right;
    while (left != nullptr && right != nullptr) {
      const bool left_above = Above(left, right);
      Node*& top = left_above ? left : right;
      *at = top;
      at = &Side(top, !left_above);
      top = *at;
    }
    *at = left != nullptr ? left : right;
    n->*kLink = {};
  }

  // The first object for which reached(object) is true. In the order of the set, `reached` is false
  // up to some object and true from there on.
  template <class Reached>
  Node* First(Reached&& reached) const {
    Node* found = nullptr;
    for (Node* n = root_; n != nullptr;) {
      const bool is = reached(*n);
      if (is) found = n;
      n = is ? (n->*kLink).left : (n->*kLink).right;
    }
    return found;
  }

  // The last object for which reached(object) is false.
  template <class Reached>
  Node* LastBefore(Reached&& reached) const {
    Node* found = nullptr;
    for (Node* n = root_; n != nullptr;) {
      const bool is = reached(*n);
      if (!is) found = n;
      n = is ? (n->*kLink).left : (n->*kLink).right;
    }
    return found;
  }

  Node* first() const {
    return First([](const Node&) { return true; });
  }
  // The object after n, which is in the set.
  Node* After(const Node* n) const {
    return First([n](const Node& m) { return Order::Less(*n, m); });
  }

 private:
  static Node*& Side(Node* n, bool left) { return left ? (n->*kLink).left : (n->*kLink).right; }

  // Two rounds of hashing: addresses at a fixed distance must not have priorities in a pattern.
  static uint64_t HeightOf(const Node* n) {
    uint64_t h = reinterpret_cast<uintptr_t>(n);
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdu;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 33);
  }
  static bool Above(const Node* a, const Node* b) { return HeightOf(a) > HeightOf(b); }

  Node* root_ = nullptr;
};

}  // namespace granary
