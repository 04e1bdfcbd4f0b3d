import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { askInLines, gnutlsJudge, goJudge, opensslJudge } from "../judges.ts";
import { notRun, type Outcome, reportOutcomes, shown } from "../outcome-table.ts";
import type { Software } from "../software.ts";
import { type JudgedList, judgedLists } from "./lists.ts";

/** Judges the lists, and tells what it saw. @throws Error for the first that it refuses. */
type Judge = (program: string, lists: readonly JudgedList[], folder: string) => Promise<string>;

const outcomes: Outcome[] = [];

const byGo: Judge = async (program, lists) => {
  const faults = await askInLines(program, lists);
  const i = faults.findIndex((fault) => fault !== "");
  if (i >= 0) throw new Error(`${lists[i]?.name}: ${faults[i]}`);
  return `signature, number, times, key identifier and all entries of ${lists.length} lists`;
};

/** Both leaves, as OpenSSL judges them with the list. */
const byOpenssl: Judge = async (_, lists, folder) => {
  for (const list of lists) {
    const { root, crl, good, revoked } = await filesOf(folder, list);
    const verify = (leaf: string) => {
      const options = ["-x509_strict", "-crl_check_all", "-CAfile", root, "-CRLfile", crl];
      return run("openssl", ["verify", ...options, leaf]);
    };
    const first = await verify(good);
    if (first.exitCode !== 0) throw new Error(`${list.name}: ${first.stderr}`);
    if (!revoked) continue;
    const { exitCode, stderr } = await verify(revoked);
    if (exitCode === 0 || !stderr.includes("certificate revoked")) {
      throw new Error(`${list.name}: the revoked leaf: ${stderr || "accepted"}`);
    }
  }
  return `-crl_check_all refuses the revoked leaves alone, by ${lists.length} lists`;
};

/**
 * The time of GnuTLS 3.7.9 grows with the square of the entries: `certtool --verify` with a list took 0.01 s of CPU for
 * 1,000, 0.2 s for 10,000, 1.2 s for 30,000, and 23 s and 200 MiB for 100,000. It verified each.
 */
const longestForGnutls = 1000;

const byGnutls: Judge = async (_, all, folder) => {
  const lists = all.filter(({ entries }) => entries.length <= longestForGnutls);
  for (const list of lists) {
    const { root, crl, good, revoked } = await filesOf(folder, list);
    const trust = ["--load-ca-certificate", root];
    const { stdout, stderr } = await run("certtool", ["--verify-crl", ...trust, "--infile", crl]);
    if (!`${stdout}${stderr}`.includes("Verification output: Verified")) {
      throw new Error(`${list.name}: ${stdout}${stderr}`);
    }
    const verify = (leaf: string) =>
      run("certtool", ["--verify", ...trust, "--load-crl", crl, "--infile", leaf]);
    const first = await verify(good);
    if (first.exitCode !== 0) throw new Error(`${list.name}: ${first.stdout}${first.stderr}`);
    if (!revoked) continue;
    const { exitCode, stdout: said } = await verify(revoked);
    if (exitCode === 0 || !/revoked/i.test(said)) throw new Error(`${list.name}: ${said}`);
  }
  return `verifies ${lists.length} lists, and refuses the revoked leaves alone`;
};

async function filesOf(folder: string, { rootPem, crlPem, goodPem, revokedPem }: JudgedList) {
  const write = async (name: string, text: string): Promise<string> => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  return {
    root: await write("root.pem", rootPem),
    crl: await write("crl.pem", crlPem),
    good: await write("good.pem", goodPem),
    revoked: revokedPem && (await write("revoked.pem", revokedPem)),
  };
}

async function judge(
  client: string,
  software: Software,
  act: (program: string) => Promise<string>,
): Promise<void> {
  const names = { client, server: "rampart", what: "CRLs of every kind of authority" };
  if ("missing" in software) outcomes.push(notRun(names, software.missing));
  else outcomes.push(await shown(names, () => act(software.program)));
}

const folder = await lastingFolder();
const lists = await judgedLists([1000, 100_000]);
await judge("Go's crypto/x509", await goJudge(), (program) => byGo(program, lists, folder));
await judge("openssl verify", await opensslJudge(), (program) => byOpenssl(program, lists, folder));
await judge("GnuTLS", await gnutlsJudge(), (program) => byGnutls(program, lists, folder));
reportOutcomes(outcomes);
