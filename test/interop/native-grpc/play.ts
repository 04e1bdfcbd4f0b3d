import type { Case } from "./cases.ts";
import type { Answer, CertificateClient, Server } from "./clients/client.ts";
import type { Verdict } from "./verdicts.ts";

/** The results of one client against one server so far. */
export interface Tally {
  /** Awaits the description of a fault, or `undefined` for success. A rejection counts as a fault. */
  readonly show: (what: string, fault: Promise<string | undefined>) => Promise<void>;
  readonly passed: () => number;
  readonly faults: readonly string[];
}

/** @param announce Gets every fault as it is found. */
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

/** Plays every case that the client can express, and the checks of this client alone. */
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

/** @returns The difference to the expected outcome, or `undefined`. */
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
