#!/bin/sh
# ruby: threads, strings that grow, compaction of its heap (which calls malloc_trim), a fork; the
# same output with and without the library. Also stats_print, which a Ruby on jemalloc prints at
# exit.
set -eu
. "$(dirname "$0")/lib.inc"
need ruby
cat >"$work/load.rb" <<'RUBY'
require 'digest/sha2' # before the threads: loading it on first use is not thread-safe
require 'json'
require 'zlib'

def work(seed)
  random = Random.new(seed)
  table = {}
  40_000.times do |i|
    text = (random.rand(97) + 1).chr * random.rand(300)
    table["k#{i % 7001}"] = [text, text.to_sym.size, { i: i, half: text[0, text.size / 2] }]
  end
  text = JSON.generate(table)
  back = JSON.parse(Zlib::Inflate.inflate(Zlib::Deflate.deflate(text)))
  raise 'a table changed' unless back.size == table.size
  grown = String.new
  20_000.times { |i| grown << i.to_s }
  Digest::SHA256.hexdigest(text + grown)[0, 16]
end

puts (1..6).map { |seed| Thread.new { work(seed) } }.map(&:value)
GC.compact if GC.respond_to?(:compact)
GC.start
pid = fork { exit!(work(9) == work(9) ? 0 : 1) }
Process.wait(pid)
puts $?.success?, work(10)
RUBY
compare_runs ruby "$work/load.rb"
MALLOC_CONF=stats_print:true under ruby -e exit >"$work/stats.log" 2>&1 || fail 'ruby fails with stats_print.'
grep -q '^___ Begin jemalloc statistics' "$work/stats.log" || fail 'stats_print printed nothing.'
