import type { OperationLog } from "../foundation/events.ts";

/** A runtime other than Node that implements Node's modules. */
type OtherRuntime = "Deno" | "Bun";

function runtimeIn({ deno, bun }: Readonly<NodeJS.ProcessVersions>): OtherRuntime | undefined {
  if (deno !== undefined) return "Deno";
  return bun === undefined ? undefined : "Bun";
}

const other = runtimeIn(process.versions);

/** What programs cannot control on each runtime, in sentences, which docs/tutorials/deno-and-bun.md repeats. */
const limits = {
  Deno: [
    "Deno chooses the cipher suites of TLS by itself, ChaCha20-Poly1305 among them, and hands out session tickets (denoland/deno#27617, denoland/deno#30305)",
  ],
  Bun: [
    "Bun chooses the cipher suites of TLS 1.3 by itself, ChaCha20-Poly1305 among them, because BoringSSL has no setting for them",
  ],
} as const;

/** The runtime of this process. */
export const Runtime = {
  /** The runtime of this process; `undefined` for Node. */
  other,

  /** The oldest versions of Node without a known fault, as a text: `24.1.0 or 26.1.0`. */
  get safeNode(): string {
    return securityReleases[0]?.fixedIn.join(" or ") ?? "";
  },

  /** What a program cannot control on this runtime, in sentences; empty for Node. */
  limits: (runtime: OtherRuntime | undefined = other): readonly string[] =>
    runtime === undefined ? [] : limits[runtime],

  /** What others can do to a program by a fault of this runtime, in sentences. */
  faults(
    runtime: OtherRuntime | undefined = other,
    node: string = process.versions.node,
  ): readonly string[] {
    if (runtime === "Deno")
      return [
        "Deno 2.9 crashes when requests reach connections that are closing: whoever reaches a port of serve or gateway can end it (denoland/deno#36788)",
      ];
    if (runtime === "Bun") return [];
    return securityReleases
      .filter(({ fixedIn }) => Runtime.isOlder(node, fixIn(node, fixedIn)))
      .map(({ date, fault }) => `Node ${node} lacks the security release of ${date}: ${fault}`);
  },

  /** Logs `platform-limits` at the start of a program: what its runtime lacks, and which known bugs of it can be exploited. */
  log({ operation }: OperationLog): void {
    for (const detail of Runtime.limits())
      operation({ event: "platform-limits", level: "info", detail });
    for (const detail of Runtime.faults())
      operation({ event: "platform-limits", level: "warning", detail });
  },

  /** Whether a version such as `24.11.0` is lower than another. Comparing with a collator would cost an agent 2 MiB. */
  isOlder(version: string, other: string): boolean {
    const numbers = version.split(".").map((part) => Number.parseInt(part, 10));
    const others = other.split(".").map((part) => Number.parseInt(part, 10));
    const at = numbers.findIndex((number, i) => number !== others[i]);
    return (numbers[at] ?? 0) < (others[at] ?? 0);
  },
};

/** A security release of Node, and what can happen to a program that lacks it. */
interface SecurityRelease {
  readonly date: string;
  /** The first version of each release line with the fixes; the newest line last. */
  readonly fixedIn: readonly string[];
  readonly fault: string;
}

/**
 * Newest first, by the release notes and the CVE records as read on 2026-11-28. The release of 2026-10-21 is left out,
 * because no program decompresses an answer, and a URL has one spelling of an IP address. So are faults that need
 * several client-certificate policies on a port, renegotiation, resumed sessions, files over HTTP/2, or headers before
 * the end of a body: no port has any (src/node/tls.ts, src/node/http).
 */
const securityReleases: readonly SecurityRelease[] = [
  {
    date: "2026-11-11",
    fixedIn: ["24.22.3", "26.13.1"],
    fault:
      "whoever reaches a port of serve or gateway can end it (CVE-2026-126051), and a peer of serve, gateway or an agent's socket may read answers to others over HTTP/2 (CVE-2026-123866)",
  },
  {
    date: "2026-07-29",
    // The notes say 24.18.1, but up to 24.20.0 a request behind its sender's GOAWAY still ended serve.
    fixedIn: ["24.21.0", "26.5.1"],
    fault: "a peer can end serve, gateway or an agent over HTTP/2 (CVE-2026-56848)",
  },
];

/** The version that fixes this Node's release line; the newest for a line without a fix. */
function fixIn(node: string, fixedIn: readonly string[]): string {
  const [line] = node.split(".");
  return fixedIn.find((fixed) => fixed.split(".")[0] === line) ?? fixedIn.at(-1) ?? "";
}
