import { lastingFolder } from "../../testkit/temporary-folder.ts";
import {
  askInLines,
  type FaultOf,
  faultsOf,
  gnutlsFault,
  gnutlsJudge,
  goJudge,
  opensslFault,
  opensslJudge,
  webpkiJudge,
} from "../judges.ts";
import { type Outcome, report } from "../outcomes.ts";
import type { Software } from "../software.ts";
import { createCases } from "./leaves.ts";

/** A verifier of another project. */
interface Verifier {
  readonly name: string;
  readonly software: Software;
  /** What it says of each leaf, by a program that reads lines or by one that is asked for each leaf. */
  readonly says: "lines" | FaultOf;
}

const folder = await lastingFolder();
const cases = await createCases();

const verifiers: readonly Verifier[] = [
  {
    name: "OpenSSL, strict",
    software: await opensslJudge(),
    says: opensslFault(folder, "-x509_strict", "-check_ss_sig"),
  },
  {
    name: "GnuTLS",
    software: await gnutlsJudge(),
    says: gnutlsFault(folder, "--verify-profile=medium"),
  },
  { name: "Go crypto/x509", software: await goJudge(), says: "lines" },
  { name: "rustls-webpki, as ztunnel builds it", software: await webpkiJudge(), says: "lines" },
];

async function ask({ name, software, says }: Verifier): Promise<Outcome> {
  const outcome = { client: name, server: "leaves with the proof of an identity" };
  if ("missing" in software)
    return { ...outcome, passed: 0, faults: [], missing: software.missing };
  const said =
    says === "lines" ? await askInLines(software.program, cases) : await faultsOf(cases, says);
  const faults = cases.flatMap(({ name, isGood }, i) => {
    if ((said[i] === "") === isGood) return [];
    return [isGood ? `refuses a leaf of ${name}: ${said[i]}` : `accepts a leaf ${name}`];
  });
  return { ...outcome, passed: cases.length - faults.length, faults };
}

const outcomes: Outcome[] = [];
for (const verifier of verifiers) outcomes.push(await ask(verifier));
report(outcomes);
