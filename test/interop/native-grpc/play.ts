import type { Case } from "./cases.ts";
import type { Answer, CertificateClient, Server } from "./client.ts";
import type { Verdict } from "./verdicts.ts";

/** What has been shown so far, by one client against one server. */
export interface Tally {
  /** Waits for a fault in words, or nothing; a rejection is a fault too. */
  readonly show: (what: string, fault: Promise<string | undefined>) => Promise<void>;
  readonly passed: () => number;
  readonly faults: readonly string[];
}

/** @param announce Hears of every fault as it comes. */
export function createTally(announce: (line: string) => void): Tally {
  const faults: string[] = [];
  let passed = 0;
  return {
    faults,
    passed: () => passed,
    show: async (what, shown) => {
      const fault = await shown.catch(wordsOf);
      if (fault === undefined) {
        passed++;
      } else {
        faults.push(`${what}: ${fault}`);
        announce(`FAILED: ${what}: ${fault}`);
      }
    },
  };
}

const wordsOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** Every case that the client can express, and what only it can show. */
export async function playCases(
  client: CertificateClient,
  server: Server,
  cases: readonly Case[],
  judge: Verdict,
  tally: Tally,
): Promise<void> {
  for (const { what, call, expected, needs } of cases) {
    if (needs && client.cannot.includes(needs)) continue;
    const answer = client.createCertificate(server, call);
    await tally.show(what, faultOf(answer, expected, judge));
  }
  for (const [what, show] of Object.entries(client.more ?? {})) {
    await tally.show(what, show(server));
  }
}

/** @returns Nothing when it is what was expected. */
export async function faultOf(
  answering: Promise<Answer>,
  expected: Case["expected"],
  judge: Verdict,
): Promise<string | undefined> {
  const answer = await answering;
  if ("code" in expected) {
    if (answer.code === expected.code) return undefined;
    return `${answer.code} instead of ${expected.code}${messageOf(answer)}`;
  }
  if (!("certChain" in answer))
    return `${answer.code} instead of a certificate${messageOf(answer)}`;
  const faults = await judge({ ...expected, certChain: answer.certChain });
  return faults.length > 0 ? faults.join("; ") : undefined;
}

const messageOf = (answer: Answer): string => ("message" in answer ? ` (${answer.message})` : "");
