#!/bin/sh
# java: the compiler and a program with threads, direct buffers, zlib and collections.
set -eu
. "$(dirname "$0")/lib.inc"
need java javac
cat >"$work/Load.java" <<'JAVA'
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

public class Load {
  static long buffers(int seed) throws DataFormatException {
    CRC32 crc = new CRC32();
    for (int i = 1; i < 150; i++) {
      ByteBuffer direct = ByteBuffer.allocateDirect((i * 7919 * seed) % 200000 + 1);
      while (direct.hasRemaining()) direct.put((byte) (direct.position() * seed));
      direct.flip();
      byte[] plain = new byte[direct.remaining()];
      direct.get(plain);
      Deflater deflater = new Deflater();
      deflater.setInput(plain);
      deflater.finish();
      byte[] packed = new byte[plain.length + 1000];
      int length = deflater.deflate(packed);
      deflater.end();
      Inflater inflater = new Inflater();
      inflater.setInput(packed, 0, length);
      byte[] back = new byte[plain.length];
      inflater.inflate(back);
      inflater.end();
      if (!Arrays.equals(plain, back)) throw new IllegalStateException("a buffer changed");
      crc.update(back);
    }
    return crc.getValue();
  }

  static long objects(int seed) {
    Map<String, int[]> map = new HashMap<>();
    for (int i = 0; i < 200000; i++) map.put("k" + (i * (long) seed) % 9973, new int[i % 64]);
    return map.values().stream().mapToLong(a -> a.length).sum();
  }

  public static void main(String[] args) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(8);
    List<Future<String>> results = new ArrayList<>();
    for (int i = 1; i <= 24; i++) {
      int seed = i;
      results.add(pool.submit(() -> seed + ":" + objects(seed) + ":" + buffers(seed)));
    }
    for (Future<String> result : results) System.out.println(result.get());
    pool.shutdown();
    for (int i = 0; i < 300; i++) {
      Thread thread = new Thread(() -> objects(1 + 0));
      if (i % 100 == 0) { thread.start(); thread.join(); }
      else { Thread brief = new Thread(() -> { }); brief.start(); brief.join(); }
    }
  }
}
JAVA
under javac -J-Xmx256m -d "$work" "$work/Load.java" 2>"$work/javac.log" || fail 'javac failed.'
compare_runs java -Xmx256m -cp "$work" Load

# With native memory tracking, which puts a header before each block and checks it at the free.
under java -Xmx256m -XX:NativeMemoryTracking=summary -XX:+UnlockDiagnosticVMOptions \
  -XX:+PrintNMTStatistics -cp "$work" Load >"$work/tracked.log" 2>&1 || fail 'java fails with native memory tracking.'
grep -q 'Native Memory Tracking:' "$work/tracked.log" || fail 'java tracked nothing.'
