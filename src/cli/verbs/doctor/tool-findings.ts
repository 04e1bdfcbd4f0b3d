import { type Finding, finding } from "../../../status/finding.ts";
import type { WorkerTools } from "../../session/wrangler.ts";
import { wranglerVersion } from "../../version.ts";
import { isOlder } from "./machine-findings.ts";

/** A fault of all versions before one. */
interface KnownFault {
  readonly before: string;
  readonly fault: string;
}

/** As the records of both CVEs say, read on 2026-11-22 (GHSA-f8mp-x433-5wpf, GHSA-36p8-mvp6-cv38). */
const wranglerFaults: readonly KnownFault[] = [
  { before: "3.19.0", fault: "wrangler dev lets other sites open its inspector (CVE-2023-7080)" },
  {
    before: "4.59.1",
    fault: "wrangler pages deploy runs commands out of a commit's hash (CVE-2026-0933)",
  },
];

/** workerd's commit 72bbd70e5 of 2026-05-11 added `certRFC9440`, which the Worker reads; read on 2026-11-22. */
const workerdFaults: readonly KnownFault[] = [
  {
    before: "1.20260512.0",
    fault: "it hands the Worker no client certificate, so callers that have only one are refused",
  },
];

/** Findings about the tools of a Worker. @param compatibilityDate Its own, such as `2026-10-23`. */
export function toolFindings(
  { wrangler, workerd }: WorkerTools,
  compatibilityDate: string,
): readonly Finding[] {
  return [...olderWrangler(wrangler), ...unfitWorkerd(workerd, compatibilityDate)];
}

function olderWrangler(version: string): Finding[] {
  if (!isOlder(version, wranglerVersion)) return [];
  const faults = faultsOf(version, wranglerFaults);
  const known = faults.length > 0 ? `: ${faults.join("; ")}` : "";
  const what = `This is wrangler ${version}; Rampart is tested with ${wranglerVersion}${known}.`;
  return [finding("wrangler-version", what, `npm install -D wrangler@${wranglerVersion}`)];
}

function unfitWorkerd(version: string, compatibilityDate: string): Finding[] {
  const faults = faultsOf(version, workerdFaults);
  const date = dateOf(version);
  if (date !== undefined && date < compatibilityDate) {
    faults.push(`it does not know compatibility_date ${compatibilityDate}, and takes an older one`);
  }
  if (faults.length === 0) return [];
  const what = `This is workerd ${version}: ${faults.join("; ")}.`;
  return [finding("workerd-version", what, `npm install -D wrangler@${wranglerVersion}`)];
}

const faultsOf = (version: string, known: readonly KnownFault[]): string[] =>
  known.filter(({ before }) => isOlder(version, before)).map(({ fault }) => fault);

/** The second number of workerd's version is its date. */
function dateOf(version: string): string | undefined {
  const [, year, month, day] = /^1\.(\d{4})(\d\d)(\d\d)\./.exec(version) ?? [];
  return day === undefined ? undefined : `${year}-${month}-${day}`;
}
