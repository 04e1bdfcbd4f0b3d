import { type Finding, finding } from "../../../ca/checkup/finding.ts";
import { type IssuerReport, isSkewed } from "../cluster/cluster-check.ts";

/** Findings about the issuers, from the reports about them. */
export function issuerFindings(reports: readonly IssuerReport[]): readonly Finding[] {
  return reports.flatMap((report) => [
    ...unreachable(report),
    ...unusable(report),
    ...skewed(report),
  ]);
}

function unreachable({ cluster, issuer, fault }: IssuerReport): Finding[] {
  if (fault === undefined) return [];
  const what = `The keys of ${issuer} (cluster ${cluster}) cannot be loaded: it ${fault}.`;
  const remedy =
    "Look whether the CA's machine reaches it, or give its keys inline: rampart cluster enrol";
  return [finding("issuer-unreachable", what, remedy)];
}

function unusable({ cluster, issuer, unusableKeys }: IssuerReport): Finding[] {
  return unusableKeys.map((key) => {
    const what = `${issuer} (cluster ${cluster}) has a key that Rampart cannot use, ${key}.`;
    const remedy =
      "Give the issuer an RSA key of 2048 bits or more, or P-256, P-384, P-521, Ed25519";
    return finding("issuer-key-unusable", what, remedy);
  });
}

function skewed({ issuer, clockAheadSeconds }: IssuerReport): Finding[] {
  if (clockAheadSeconds === undefined || !isSkewed(clockAheadSeconds)) return [];
  const by = `${Math.abs(clockAheadSeconds)}s ${clockAheadSeconds > 0 ? "ahead of" : "behind"}`;
  const what = `The clock of ${issuer} is ${by} this machine's.`;
  return [finding("clock-skew", what, "Compare both with a time server (chronyc tracking)")];
}
