import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../testkit/programs/child-process.ts";
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
import { ask as askInJson } from "../native-grpc/clients/clients.ts";
import { type Outcome, playAll, playRows, reportOutcomes } from "../outcome-table.ts";
import { fromGoModule, required, type Software } from "../software.ts";
import {
  type ImportedCase,
  istiodsQuestion,
  mutantCases,
  mutatedCases,
  plainCases,
} from "./imports.ts";
import { type Case, createCases } from "./leaves.ts";
import { type JudgedList, judgedLists } from "./lists.ts";

const folder = await lastingFolder();
const lists = await judgedLists([1000, 100_000]);

interface Verifier {
  readonly name: string;
  readonly software: Promise<Software>;
  /** What it says of each leaf, by a program that reads lines or by one that is asked for each leaf. */
  readonly ofLeaves: "lines" | FaultOf;
  /** What a warning of the import says of leaves that this verifier refuses. */
  readonly warning?: string;
  /** Judges the lists. @throws Error for the first that it refuses. */
  readonly ofLists?: (program: string) => Promise<string>;
}

const verifiers: readonly Verifier[] = [
  {
    name: "OpenSSL",
    software: opensslJudge(),
    ofLeaves: opensslFault(folder),
    warning: "OpenSSL refuses it without -partial_chain",
  },
  {
    name: "OpenSSL, strict",
    software: opensslJudge(),
    ofLeaves: opensslFault(folder, "-x509_strict", "-partial_chain"),
    warning: "`openssl -x509_strict`",
    ofLists: listsByOpenssl,
  },
  {
    name: "GnuTLS",
    software: gnutlsJudge(),
    ofLeaves: gnutlsFault(folder),
    warning: "GnuTLS refuse",
    ofLists: listsByGnutls,
  },
  {
    name: "Go crypto/x509",
    software: goJudge(),
    ofLeaves: "lines",
    ofLists: async (program) => {
      const faults = await askInLines(program, lists);
      const i = faults.findIndex((fault) => fault !== "");
      if (i >= 0) throw new Error(`${lists[i]?.name}: ${faults[i]}`);
      return `signature, number, times, key identifier and all entries of ${lists.length} lists`;
    },
  },
  {
    name: "rustls-webpki, as ztunnel builds it",
    software: webpkiJudge(),
    ofLeaves: "lines",
    warning: "ztunnel",
  },
];

/** @throws Error that shows the first few of the leaves of which something else was said. */
function requireExpected(
  cases: readonly Case[],
  said: readonly string[],
  { warning }: Pick<Verifier, "warning"> = {},
): string {
  let warned = 0;
  const faults = cases.flatMap(({ name, isGood, warnings }, i) => {
    const fault = said[i] ?? "no answer";
    if ((fault === "") === isGood) return [];
    if (!isGood) return [`a leaf ${name} is accepted`];
    const isForetold = warning !== undefined && warnings.some((each) => each.includes(warning));
    if (!isForetold) return [`${name}: ${fault}`];
    warned++;
    return [];
  });
  if (faults.length === 0) return `${cases.length} leaves; ${warned} refused, as a warning says`;
  throw new Error(`${faults.length} without a warning: ${faults.slice(0, 5).join("; ")}`);
}

async function listsByOpenssl(): Promise<string> {
  for (const list of lists) {
    const { root, crl, good, revoked } = await filesOf(list);
    const verify = (leaf: string) => {
      const options = ["-x509_strict", "-check_ss_sig", "-crl_check_all"];
      return run("openssl", ["verify", ...options, "-CAfile", root, "-CRLfile", crl, leaf]);
    };
    const first = await verify(good);
    if (first.exitCode !== 0) throw new Error(`${list.name}: ${first.stderr}`);
    if (!revoked) continue;
    const { exitCode, stderr } = await verify(revoked);
    if (exitCode === 0 || !stderr.includes("certificate revoked"))
      throw new Error(`${list.name}: the revoked leaf: ${stderr || "accepted"}`);
  }
  return `-crl_check_all refuses the revoked leaves alone, by ${lists.length} lists`;
}

/**
 * The time of GnuTLS 3.7.9 grows with the square of the entries: `certtool --verify` with a list took 0.01 s of CPU for
 * 1,000, 0.2 s for 10,000, 1.2 s for 30,000, and 23 s and 200 MiB for 100,000. It verified each.
 */
const longestForGnutls = 1000;
const strictly = ["--verify", "--verify-profile=medium"];

async function listsByGnutls(): Promise<string> {
  const short = lists.filter(({ entries }) => entries.length <= longestForGnutls);
  for (const list of short) {
    const { root, crl, good, revoked } = await filesOf(list);
    const trust = ["--load-ca-certificate", root];
    const { stdout, stderr } = await run("certtool", ["--verify-crl", ...trust, "--infile", crl]);
    if (!`${stdout}${stderr}`.includes("Verification output: Verified"))
      throw new Error(`${list.name}: ${stdout}${stderr}`);
    const verify = (leaf: string) =>
      run("certtool", [...strictly, ...trust, "--load-crl", crl, "--infile", leaf]);
    const first = await verify(good);
    if (first.exitCode !== 0) throw new Error(`${list.name}: ${first.stdout}${first.stderr}`);
    if (!revoked) continue;
    const { exitCode, stdout: said } = await verify(revoked);
    if (exitCode === 0 || !/revoked/i.test(said)) throw new Error(`${list.name}: ${said}`);
  }
  return `verifies ${short.length} lists, and refuses the revoked leaves alone`;
}

async function filesOf({ rootPem, crlPem, goodPem, revokedPem }: JudgedList) {
  const write = async (name: string, text: string): Promise<string> => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  return {
    root: await write("list-root.pem", rootPem),
    crl: await write("crl.pem", crlPem),
    good: await write("good.pem", goodPem),
    revoked: revokedPem && (await write("revoked.pem", revokedPem)),
  };
}

async function ask(
  { name, software, ofLeaves, ofLists, ...foretold }: Verifier,
  cases: readonly Case[],
): Promise<Outcome[]> {
  const names = { client: name, server: "rampart" };
  const program = await required(software);
  const leaves = cases.map(({ leaf }) => leaf);
  const judge = () =>
    ofLeaves === "lines" ? askInLines(program, leaves) : faultsOf(leaves, ofLeaves);
  return playRows(names, [
    [
      "leaves with the proof of an identity, and below imported CAs",
      async () => requireExpected(cases, await judge(), foretold),
    ],
    ...(ofLists ? ([["CRLs of every kind of authority", () => ofLists(program)]] as const) : []),
  ]);
}

/** What the import lets in, of bundles of every kind and of mutants. */
async function playImports(): Promise<[Outcome[], readonly ImportedCase[]]> {
  const accepted: ImportedCase[] = [];
  const importing = (load: () => Promise<readonly ImportedCase[]>) => async () => {
    const cases = await load();
    accepted.push(...cases);
    return `${cases.length} imported`;
  };
  const outcomes = await playRows({ client: "CAs of others", server: "rampart" }, [
    ["bundles of every kind are imported, or refused for the reason", importing(plainCases)],
    [`${mutantCases} mutated CAs`, importing(mutatedCases)],
  ]);
  return [outcomes, accepted];
}

async function askIstio(cases: readonly ImportedCase[]): Promise<Outcome[]> {
  const names = { client: "Istio's NewVerifiedKeyCertBundleFromPem", server: "rampart" };
  const what = "no imported CA is refused";
  const istio = fromGoModule(join(import.meta.dirname, "../istio-client"), "istio-client");
  const judge = async () =>
    askInJson<readonly string[]>(await required(istio), "bundles", cases.map(istiodsQuestion));
  return playRows(names, [[what, async () => requireExpected(cases, await judge())]]);
}

const [outcomes, imported] = await playImports();
const cases = [...(await createCases()), ...imported];
for (const verifier of verifiers) {
  const names = { client: verifier.name, server: "rampart" };
  outcomes.push(...(await playAll(names, () => ask(verifier, cases))));
}
outcomes.push(...(await askIstio(imported)));
reportOutcomes(outcomes);
