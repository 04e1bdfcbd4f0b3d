import { type Finding, finding } from "./finding.ts";

/** An issuer, and the state of its keys. */
export interface ExaminedIssuer {
  readonly cluster: string;
  readonly issuer: string;
  /** Why the keys cannot be loaded, to be read behind "it". */
  readonly fault: string | undefined;
  /** The keys for signatures that Rampart cannot use, each with its reason. */
  readonly unusableKeys: readonly string[];
}

/** Findings about the keys of issuers. */
export function issuerFindings(issuers: readonly ExaminedIssuer[]): readonly Finding[] {
  return issuers.flatMap((each) => [...unreachable(each), ...unusable(each)]);
}

function unreachable({ cluster, issuer, fault }: ExaminedIssuer): Finding[] {
  if (fault === undefined) return [];
  const what = `The keys of ${issuer} (cluster ${cluster}) cannot be loaded: it ${fault}.`;
  const remedy =
    "Look whether the CA's machine reaches it, or give its keys inline: rampart cluster enrol";
  return [finding("issuer-unreachable", what, remedy)];
}

function unusable({ cluster, issuer, unusableKeys }: ExaminedIssuer): Finding[] {
  return unusableKeys.map((key) => {
    const what = `${issuer} (cluster ${cluster}) has a key that Rampart cannot use, ${key}.`;
    const remedy =
      "Give the issuer an RSA key of 2048 bits or more, or P-256, P-384, P-521, Ed25519";
    return finding("issuer-key-unusable", what, remedy);
  });
}
