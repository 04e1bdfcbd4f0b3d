/** The runtime of this process where it is none of Node, whose modules it has all the same. */
export const otherRuntime: "Deno" | "Bun" | undefined = runtimeIn(process.versions);

function runtimeIn({ deno, bun }: Readonly<NodeJS.ProcessVersions>): typeof otherRuntime {
  if (deno !== undefined) return "Deno";
  return bun === undefined ? undefined : "Bun";
}

/** What each of them keeps from a program, in sentences. docs/tutorials/deno-and-bun.md has them too. */
const limits = {
  Deno: [
    "Deno chooses the cipher suites of TLS by itself, ChaCha20-Poly1305 among them, and hands out session tickets (denoland/deno#27617, denoland/deno#30305)",
  ],
  Bun: [
    "Bun chooses the cipher suites of TLS 1.3 by itself, ChaCha20-Poly1305 among them, because BoringSSL has no setting for them",
  ],
} as const;

/** What this runtime keeps from a program. Node keeps nothing. */
export const runtimeLimits = (runtime: typeof otherRuntime = otherRuntime): readonly string[] =>
  runtime === undefined ? [] : limits[runtime];

/** What strangers can do to a server by a fault of this runtime, in sentences. Faults of Node go with its version. */
export const runtimeFaults = (runtime: typeof otherRuntime = otherRuntime): readonly string[] =>
  runtime === "Deno"
    ? [
        "Deno 2.9 crashes when requests reach connections that are closing: whoever reaches a port of serve or gateway can end it (denoland/deno#36788)",
      ]
    : [];
