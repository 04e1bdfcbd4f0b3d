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
import { notRun, type Outcome, playRows, reportOutcomes } from "../outcome-table.ts";
import type { Software } from "../software.ts";
import { createCases } from "./leaves.ts";
import { type JudgedList, judgedLists } from "./lists.ts";

const folder = await lastingFolder();
const cases = await createCases();
const lists = await judgedLists([1000, 100_000]);

/** A verifier of another project. */
interface Verifier {
  readonly name: string;
  readonly software: Software;
  /** What it says of each leaf, by a program that reads lines or by one that is asked for each leaf. */
  readonly ofLeaves: "lines" | FaultOf;
  /** Judges the lists. @throws Error for the first that it refuses. */
  readonly ofLists?: (program: string) => Promise<string>;
}

const verifiers: readonly Verifier[] = [
  {
    name: "OpenSSL, strict",
    software: await opensslJudge(),
    ofLeaves: opensslFault(folder, "-x509_strict", "-check_ss_sig"),
    ofLists: listsByOpenssl,
  },
  {
    name: "GnuTLS",
    software: await gnutlsJudge(),
    ofLeaves: gnutlsFault(folder, "--verify-profile=medium"),
    ofLists: listsByGnutls,
  },
  {
    name: "Go crypto/x509",
    software: await goJudge(),
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
    software: await webpkiJudge(),
    ofLeaves: "lines",
  },
];

async function judgeLeaves(program: string, says: Verifier["ofLeaves"]): Promise<string> {
  const said = says === "lines" ? await askInLines(program, cases) : await faultsOf(cases, says);
  const faults = cases.flatMap(({ name, isGood }, i) => {
    if ((said[i] === "") === isGood) return [];
    return [isGood ? `refuses a leaf of ${name}: ${said[i]}` : `accepts a leaf ${name}`];
  });
  if (faults.length > 0) throw new Error(faults.join("; "));
  return `${cases.length} leaves`;
}

async function listsByOpenssl(): Promise<string> {
  for (const list of lists) {
    const { root, crl, good, revoked } = await filesOf(list);
    const verify = (leaf: string) => {
      const options = ["-x509_strict", "-crl_check_all", "-CAfile", root, "-CRLfile", crl];
      return run("openssl", ["verify", ...options, leaf]);
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

async function listsByGnutls(): Promise<string> {
  const short = lists.filter(({ entries }) => entries.length <= longestForGnutls);
  for (const list of short) {
    const { root, crl, good, revoked } = await filesOf(list);
    const trust = ["--load-ca-certificate", root];
    const { stdout, stderr } = await run("certtool", ["--verify-crl", ...trust, "--infile", crl]);
    if (!`${stdout}${stderr}`.includes("Verification output: Verified"))
      throw new Error(`${list.name}: ${stdout}${stderr}`);
    const verify = (leaf: string) =>
      run("certtool", ["--verify", ...trust, "--load-crl", crl, "--infile", leaf]);
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

async function ask({ name, software, ofLeaves, ofLists }: Verifier): Promise<Outcome[]> {
  const names = { client: name, server: "rampart" };
  if ("missing" in software) return [notRun({ ...names, what: "all" }, software.missing)];
  const { program } = software;
  return playRows(names, [
    ["leaves with the proof of an identity", () => judgeLeaves(program, ofLeaves)],
    ...(ofLists ? ([["CRLs of every kind of authority", () => ofLists(program)]] as const) : []),
  ]);
}

const outcomes: Outcome[] = [];
for (const verifier of verifiers) outcomes.push(...(await ask(verifier)));
reportOutcomes(outcomes);
