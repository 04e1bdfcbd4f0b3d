/**
 * What the executable and the image start Node with: V8 does not reduce its heap after calm seconds, because the next
 * thousand certificates would cost twice as much, and lets it grow by 40 % between collections. By its own measure
 * V8 collects after a tenth, which costs a twentieth of the CPU where many calls wait for a log. With 60 %, a flood of
 * requests with huge headers takes 25 MiB more.
 */
export const startFlags = ["--memory-reducer-gc-count=0", "--heap-growing-percent=40"] as const;

/**
 * The bounds of V8's heap. Without them V8 takes memory rather than collect garbage.
 *
 * A machine has the fast ones, by the units in deploy/: they take some 60 MiB more. A container has the small ones,
 * by the image, and the chart gives it the fast ones where its limit of memory has room for them.
 */
export const heapFlags = {
  small: ["--max-semi-space-size=2", "--max-old-space-size=80"],
  fast: ["--max-semi-space-size=16", "--max-old-space-size=256"],
  /** Of an agent by itself: it stands beside each workload. Without machine code it holds 2 MiB less. */
  agent: ["--max-semi-space-size=1", "--max-old-space-size=64", "--jitless"],
} as const;

/** What a container starts Node with. */
export const nodeFlags: readonly string[] = [...heapFlags.small, ...startFlags];

/** What a machine starts Node with. */
export const fastNodeFlags: readonly string[] = [...heapFlags.fast, ...startFlags];

/**
 * What a pod starts Node with for an agent: V8 drops code that it does not use, which are 2 MiB. Node takes these flags
 * on its command line alone. An executable has no such line, so its unit goes without.
 */
export const agentFlags: readonly string[] = ["--optimize-for-size", "--bytecode-old-age=1"];
