import { type Finding, finding } from "../../../status/finding.ts";
import { type IssuerReport, isSkewed } from "../cluster/cluster-check.ts";

/** Findings about the clocks of the issuers, from the reports about them. */
export const skewFindings = (reports: readonly IssuerReport[]): readonly Finding[] =>
  reports.flatMap(skewed);

function skewed({ issuer, clockAheadSeconds }: IssuerReport): Finding[] {
  if (clockAheadSeconds === undefined || !isSkewed(clockAheadSeconds)) return [];
  const by = `${Math.abs(clockAheadSeconds)}s ${clockAheadSeconds > 0 ? "ahead of" : "behind"}`;
  const what = `The clock of ${issuer} is ${by} this machine's.`;
  return [finding("clock-skew", what, "Compare both with a time server (chronyc tracking)")];
}
