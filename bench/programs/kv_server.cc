// A small threaded key-value server with Redis' protocol: SET, GET, DEL, FLUSHALL, DBSIZE, PING.
// Each item is one malloc for key and value. Each request's arguments are strings of their own, as
// in servers that pass requests from object to object. Loopback only.
//
//   kv_server port=7000 threads=2
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

struct Item {
  Item* next;
  unsigned key_size, value_size;
  char bytes[1];  // key, then value
  std::string_view key() const { return {bytes, key_size}; }
  std::string_view value() const { return {bytes + key_size, value_size}; }
};

Item* NewItem(std::string_view key, std::string_view value) {
  auto* item = static_cast<Item*>(std::malloc(sizeof(Item) + key.size() + value.size()));
  if (item == nullptr) return nullptr;
  item->key_size = static_cast<unsigned>(key.size());
  item->value_size = static_cast<unsigned>(value.size());
  std::memcpy(item->bytes, key.data(), key.size());
  std::memcpy(item->bytes + key.size(), value.data(), value.size());
  return item;
}

// One part of the table, with a lock of its own.
class Shard {
 public:
  bool Set(std::string_view key, std::string_view value, size_t hash) {
    Item* item = NewItem(key, value);
    if (item == nullptr) return false;
    std::lock_guard lock(mutex_);
    if (size_ >= buckets_.size()) Grow();
    Item** at = Find(key, hash);
    if (Item* old = *at) {
      item->next = old->next;
      std::free(old);
    } else {
      item->next = nullptr;
      ++size_;
    }
    *at = item;
    return true;
  }

  bool Get(std::string_view key, size_t hash, std::string* out) {
    std::lock_guard lock(mutex_);
    Item* item = *Find(key, hash);
    if (item != nullptr) out->assign(item->value());
    return item != nullptr;
  }

  bool Delete(std::string_view key, size_t hash) {
    std::lock_guard lock(mutex_);
    Item** at = Find(key, hash);
    Item* item = *at;
    if (item == nullptr) return false;
    *at = item->next;
    std::free(item);
    --size_;
    return true;
  }

  void Clear() {
    std::lock_guard lock(mutex_);
    for (Item*& head : buckets_) {
      while (Item* item = head) {
        head = item->next;
        std::free(item);
      }
    }
    size_ = 0;
  }

  size_t size() {
    std::lock_guard lock(mutex_);
    return size_;
  }

 private:
  Item** Find(std::string_view key, size_t hash) {
    Item** at = &buckets_[hash & (buckets_.size() - 1)];
    while (*at != nullptr && (*at)->key() != key) at = &(*at)->next;
    return at;
  }

  void Grow() {
    std::vector<Item*> old(buckets_.size() * 2, nullptr);
    old.swap(buckets_);
    for (Item* item : old) {
      while (item != nullptr) {
        Item* next = item->next;
        Item** at =
            &buckets_[(std::hash<std::string_view>()(item->key()) >> 8) & (buckets_.size() - 1)];
        item->next = *at;
        *at = item;
        item = next;
      }
    }
  }

  std::mutex mutex_;
  std::vector<Item*> buckets_ = std::vector<Item*>(1024, nullptr);
  size_t size_ = 0;
};

constexpr size_t kShards = 256;
std::array<Shard, kShards> table;

void Append(std::string* out, const char* format, size_t number) {
  char text[64];
  out->append(text, static_cast<size_t>(std::snprintf(text, sizeof(text), format, number)));
}

bool Is(const std::string& word, const char* name) { return strcasecmp(word.c_str(), name) == 0; }

void Execute(const std::vector<std::string>& words, std::string* out) {
  const std::string& command = words[0];
  const size_t hash = words.size() > 1 ? std::hash<std::string_view>()(words[1]) : 0;
  Shard& shard = table[hash % kShards];
  if (Is(command, "SET") && words.size() >= 3) {
    out->append(shard.Set(words[1], words[2], hash >> 8) ? "+OK\r\n" : "-OOM no memory\r\n");
  } else if (Is(command, "GET") && words.size() == 2) {
    std::string value;
    if (shard.Get(words[1], hash >> 8, &value)) {
      Append(out, "$%zu\r\n", value.size());
      out->append(value).append("\r\n");
    } else {
      out->append("$-1\r\n");
    }
  } else if (Is(command, "DEL") && words.size() == 2) {
    Append(out, ":%zu\r\n", shard.Delete(words[1], hash >> 8) ? 1 : 0);
  } else if (Is(command, "FLUSHALL")) {
    for (Shard& each : table) each.Clear();
    out->append("+OK\r\n");
  } else if (Is(command, "DBSIZE")) {
    size_t total = 0;
    for (Shard& each : table) total += each.size();
    Append(out, ":%zu\r\n", total);
  } else if (Is(command, "PING")) {
    out->append("+PONG\r\n");
  } else {
    out->append("-ERR there is no such command\r\n");
  }
}

// A connection's bytes, and the requests in them.
class Connection {
 public:
  // Reads the available bytes and answers every complete request. False when the connection is
  // closed.
  bool Serve(int fd) {
    char chunk[16 << 10];
    const ssize_t got = read(fd, chunk, sizeof(chunk));
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    in_.append(chunk, static_cast<size_t>(got));
    std::string out;
    size_t used = 0;
    while (size_t n = Parse(std::string_view(in_).substr(used))) {
      if (n == kBroken) return false;
      used += n;
      if (!words_.empty()) Execute(words_, &out);
    }
    in_.erase(0, used);
    return Send(fd, out);
  }

 private:
  static constexpr size_t kBroken = ~size_t{0};

  // The size of the complete request at the start of text, whose words are stored in words_. 0 when
  // the request is incomplete.
  size_t Parse(std::string_view text) {
    words_.clear();
    size_t at = 0;
    long count = 0;
    if (text.empty()) return 0;
    if (text[0] != '*') return ParseInline(text);
    if (!Number(text, '*', &at, &count)) return 0;
    if (count < 0 || count > 1024) return kBroken;
    for (long i = 0; i < count; ++i) {
      long size = 0;
      if (at >= text.size() || !Number(text.substr(at), '$', &at, &size)) return 0;
      if (size < 0 || size > (64 << 20)) return kBroken;
      const auto bytes = static_cast<size_t>(size);
      if (text.size() < at + bytes + 2) return 0;
      words_.emplace_back(text.substr(at, bytes));
      at += bytes + 2;
    }
    return at;
  }

  size_t ParseInline(std::string_view text) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return 0;
    std::string_view line = text.substr(0, end);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (!line.empty()) words_.emplace_back(line);
    return end + 1;
  }

  // Reads "<mark><digits>\r\n" and adds its size to at.
  static bool Number(std::string_view text, char mark, size_t* at, long* value) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    *value = text[0] == mark ? std::strtol(text.data() + 1, nullptr, 10) : -1;
    *at += end + 1;
    return true;
  }

  static bool Send(int fd, std::string_view out) {
    while (!out.empty()) {
      const ssize_t sent = send(fd, out.data(), out.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) return false;
      if (sent > 0) out.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  std::string in_;
  std::vector<std::string> words_;
};

int Listen(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));  // the kernel distributes connections
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd, 1024) != 0) {
    std::perror("kv_server: cannot listen on the port; give another one");
    std::exit(1);
  }
  return fd;
}

void Accept(int listener, int poll, std::map<int, std::unique_ptr<Connection>>* connections) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
  (*connections)[fd] = std::make_unique<Connection>();
}

// One thread's share of the connections.
void Loop(int listener) {
  const int poll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener;
  epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
  std::map<int, std::unique_ptr<Connection>> connections;
  std::array<epoll_event, 64> events;
  for (;;) {
    const int n = epoll_wait(poll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == listener) {
        Accept(listener, poll, &connections);
      } else if (!connections[fd]->Serve(fd)) {
        connections.erase(fd);
        close(fd);
      }
    }
  }
}

int Argument(int argc, char** argv, const char* name, int otherwise) {
  const size_t size = std::strlen(name);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], name, size) == 0 && argv[i][size] == '=')
      return std::atoi(argv[i] + size + 1);
  }
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const int port = Argument(argc, argv, "port", 7000);
  const int count = Argument(argc, argv, "threads", 2);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(Loop, Listen(port));
  for (std::thread& thread : threads) thread.join();
}
