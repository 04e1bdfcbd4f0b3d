import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CallFailed, callOnce, framedRequest, type Way } from "./call.ts";
import type { Mood, SoakIssuer } from "./issuers.ts";

const flooder = join(import.meta.dirname, "../../bench/floods/flooder.ts");

/** Every method of `npm run bench:floods`, those first that leave the most behind. */
const floods = [
  "silent HTTP/2 connections",
  "idle TLS connections",
  "calls without a good credential",
  "rapid resets",
  "long polls",
  "handshakes again and again",
  "Health/Watch streams",
  "HTTP/1.1 bodies that drip",
  "empty DATA frames",
  "handshakes that never end",
  "answers with a window of 0",
  "requests that never end",
  "bodies that never come",
  "HTTP/1.1 bodies that never come",
  "pings",
  "settings",
  "headers without an end",
  "HTTP/1.1 heads that drip",
];

/** Neither an honest caller's, nor that of the gateway: `serve` gives each address its own places. */
export const strangersAddress = "127.0.0.10";

const floodSeconds = 8;
const roundMilliseconds = 60_000;
/** A minute begins in peace, so that samples can be taken. */
const peaceMilliseconds = 35_000;
/** Connections that a flood leaves behind live for ten seconds. */
const quietAgainMilliseconds = 12_000;

/** The attacks of strangers. */
export interface Strangers {
  /** Whether no flood is under way, or has just ended. */
  readonly isQuiet: () => boolean;
  readonly tally: { floods: number; refused: number; issued: number };
  /** The method and the port of the flood that began last. */
  readonly lastFlood: () => string;
}

/** Floods one of the ports each minute, one after the other, from an address that no honest caller has. */
export function flood(ports: ReadonlyMap<string, number>, signal: AbortSignal): Strangers {
  const tally = { floods: 0, refused: 0, issued: 0 };
  const targets = [...ports];
  let quietAt = 0;
  let lastFlood = "";
  async function run(): Promise<void> {
    for (let round = 0; !signal.aborted; round++) {
      await pause(peaceMilliseconds, signal);
      if (signal.aborted) return;
      quietAt = Number.POSITIVE_INFINITY;
      // Methods go round twice while each meets one port, and then the other.
      const [method = "", turn] = [
        floods[round % floods.length],
        Math.floor(round / floods.length),
      ];
      const [name, port] = targets[(round + turn) % targets.length] ?? [];
      lastFlood = `${method} at ${name}`;
      const words = [flooder, method, `${port}`, `${floodSeconds}`, strangersAddress];
      const child = spawn(process.execPath, words, { stdio: "ignore" });
      await once(child, "exit");
      tally.floods += 1;
      quietAt = Date.now() + quietAgainMilliseconds;
      await pause(roundMilliseconds - peaceMilliseconds - 1000 * floodSeconds, signal);
    }
  }
  void run();
  return { tally, isQuiet: () => Date.now() > quietAt, lastFlood: () => lastFlood };
}

/** Calls with forged tokens of the issuers, each with a key id that nobody knows. */
export async function forge(
  { tally }: Strangers,
  issuers: readonly SoakIssuer[],
  way: () => Way,
  signal: AbortSignal,
): Promise<void> {
  const frame = framedRequest("no CSR");
  for (let i = 0; !signal.aborted; i++) {
    await pause(300, signal);
    const token = await issuers[i % issuers.length]?.forge("soak:stranger");
    try {
      await callOnce(way(), token ?? "", frame);
      tally.issued += 1;
    } catch (error) {
      if (!(error instanceof CallFailed)) throw error;
      tally.refused += 1;
    }
  }
}

const moods: readonly Mood[] = ["fails", "hangs", "babbles"];

/** Has one issuer after the other fail for half a minute, and come back. */
export async function fail(issuers: readonly SoakIssuer[], signal: AbortSignal): Promise<void> {
  // Every issuer's keys are fetched once before: without any, nobody can judge its tokens.
  await pause(40_000, signal);
  for (let i = 0; !signal.aborted; i++) {
    const issuer = issuers[i % issuers.length];
    if (!issuer) return;
    issuer.mood = moods[i % moods.length] ?? "fails";
    await pause(30_000, signal);
    issuer.mood = "answers";
    await pause(10_000, signal);
  }
}

/** A pause that the end of the soak cuts short. */
async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  await sleep(milliseconds, undefined, { signal }).catch(() => {});
}
