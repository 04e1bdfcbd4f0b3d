/** How bad a finding is: `error` when something fails now, `warning` when something will. */
type Severity = "note" | "warning" | "error";

/** Something that an operator should know about a CA. */
export interface Finding {
  readonly name: FindingName;
  readonly severity: Severity;
  /** The fact, one sentence. */
  readonly what: string;
  /** Why it matters, one sentence. */
  readonly why: string;
  /** What to do. Each command is in backquotes and can be typed as it is. */
  readonly remedy: string;
}

/** Every possible finding of a checkup, with its severity and its reason. */
const findings = {
  "account-refused": ["warning", "The CA refuses every call of this account."],
  "authority-successor-late": [
    "error",
    "The signing authority ends before every verifier can know the root of a new one.",
  ],
  "authority-successor-missing": [
    "warning",
    "The scheduled run should have minted the successor by now, so it may not run at all.",
  ],
  "backup-old": [
    "warning",
    "An authority that is in no backup is lost with the store, and with it every certificate under it.",
  ],
  "bundle-missing": ["warning", "Workloads of these namespaces cannot verify any peer."],
  "bundle-stale": [
    "warning",
    "Workloads that trust an older bundle refuse the leaves of the next authority.",
  ],
  "ca-away": ["warning", "A CA that does not run issues no certificate."],
  "ca-needs-attention": ["warning", "The CA issues, and what it says may end that."],
  "ca-not-ready": ["error", "The CA refuses every request."],
  "clock-skew": ["warning", "Beyond a minute of skew, the CA refuses tokens that are good."],
  "cluster-away": ["warning", "The CA cannot deliver roots there, nor have it review tokens."],
  "cluster-not-inspected": ["note", "The checkup cannot say which roots this cluster has."],
  "configuration-example": ["error", "An example value names no system of yours."],
  "configuration-invalid": ["error", "No program starts with this configuration."],
  "configuration-warning": ["warning", "The configuration allows more than its author may expect."],
  "connections-proxied": [
    "note",
    "What the checkup asks goes that way, and so do the programs that have these variables.",
  ],
  "crl-ended": ["error", "A proxy with a CRL that has ended refuses every certificate under it."],
  "crl-missing": ["warning", "Proxies of these namespaces accept revoked certificates."],
  "crl-stale": [
    "warning",
    "Proxies with an older CRL accept what was revoked since, and refuse everybody once it ends.",
  ],
  "denial-ended": [
    "note",
    "A denial that has ended refuses nothing, and only makes the list longer.",
  ],
  "inception-date-over": [
    "note",
    "An empty store gets its first authority on that day alone; a CA that has one does not look.",
  ],
  "inception-date-passed": [
    "error",
    "An empty store gets its first authority on that day alone, so nothing will ever sign.",
  ],
  "issuer-key-unusable": ["warning", "The CA refuses every token that this key signs."],
  "issuer-unreachable": [
    "error",
    "The CA refuses every token of this issuer once its keys are old.",
  ],
  "jwt-issuer-elsewhere": [
    "error",
    "Relying parties do not find the keys there, and refuse every JWT-SVID.",
  ],
  "kek-unavailable": [
    "error",
    "Nothing that the KEK seals can be opened, so nothing is signed once its lease is over.",
  ],
  "kek-missing": ["error", "Without the KEK nobody can open the keys of the authorities."],
  "key-exchange-classical": [
    "warning",
    "Whoever records traffic today may read it once there is a quantum computer.",
  ],
  "namespaces-overlap": [
    "warning",
    "One identity stands for workloads of both clusters, so each can speak for those of the other.",
  ],
  "next-step-due": ["error", "Nobody but you can take the next step under your own root."],
  "node-version": ["warning", "This runtime has known faults in HTTP/2 and TLS."],
  "nothing-signs": ["error", "The CA refuses every request."],
  "platform-limits": [
    "note",
    "The platform keeps this from every program, and nobody can turn it on.",
  ],
  "record-not-private": [
    "warning",
    "Other users of this machine can read sealed keys and statements.",
  ],
  "record-owner": ["error", "The server cannot read a record that belongs to another user."],
  "record-refused": ["error", "The CA works without this record, as if somebody had deleted it."],
  "serving-certificate-unusable": ["error", "No caller can connect, or none trusts the server."],
  "store-empty": [
    "warning",
    "The CA refuses every request until the store has its first authority.",
  ],
  "store-full": [
    "error",
    "The store takes no record, and a CA whose issuance log takes no entry issues no certificate.",
  ],
  "store-nearly-full": [
    "warning",
    "Soon the store takes no record, and the issuance log no entry.",
  ],
  "store-overwrites": [
    "error",
    "Replicas would undo each other's writes: `serve` does not start, and no verb writes.",
  ],
  "store-read-only": [
    "error",
    "The store takes no record: no new authority, no denial, no revocation and no taint.",
  ],
  "store-unreadable": [
    "error",
    "The CA serves from memory at best, and not at all after a restart.",
  ],
  "subject-loose": [
    "warning",
    "Somebody else's job or machine may get the identity, as has happened elsewhere.",
  ],
  "taint-still-trusted": [
    "warning",
    "Whoever has the tainted key can still make certificates that verifiers accept.",
  ],
  "workerd-version": ["warning", "What runs on this machine is not what runs at the edge."],
  "wrangler-version": [
    "warning",
    "Whoever deploys with it runs its known faults, with your account.",
  ],
} as const satisfies Record<string, readonly [Severity, string]>;

/** The name of a finding. Names never change, because scripts and pages refer to them. */
export type FindingName = keyof typeof findings;

/** The names of all findings, in alphabetical order. */
export const findingNames = Object.keys(findings) as readonly FindingName[];

/** Creates and sorts findings. */
export const Finding = {
  /** A finding, with the severity and the reason of its name. */
  of(name: FindingName, what: string, remedy: string): Finding {
    const [severity, why] = findings[name];
    return { name, severity, what, why, remedy };
  },

  /**
   * Adds a signer's name to a finding about its store: to the sentence, and as `--signer` to the commands that take it.
   * A finding about the CA's own authorities (`""`) stays as it is.
   */
  ofSigner(signer: string, found: Finding): Finding {
    if (signer === "") return found;
    const remedy = Finding.withCommands(found.remedy, (words) =>
      /^(?:authority|root|kek) /.test(words) ? `${words} --signer ${signer}` : words,
    );
    return { ...found, what: `Signer ${signer}: ${found.what}`, remedy };
  },

  /** Replaces the words after `rampart` in each command of a remedy. */
  withCommands: (remedy: string, change: (words: string) => string): string =>
    remedy.replace(/`rampart ([^`]+)`/g, (_, words: string) => `\`rampart ${change(words)}\``),

  /** Sorts findings by severity, the worst first, and then by name. */
  worstFirst<Found extends Finding>(found: readonly Found[]): readonly Found[] {
    return found.toSorted(
      (a, b) =>
        rankOf(b) - rankOf(a) || a.name.localeCompare(b.name) || a.what.localeCompare(b.what),
    );
  },

  /** The worst severity of several findings; `undefined` where nothing was found. */
  worstOf: (found: readonly Finding[]): Severity | undefined =>
    Finding.worstFirst(found)[0]?.severity,
};

const severities: readonly Severity[] = ["note", "warning", "error"];

const rankOf = ({ severity }: Finding): number => severities.indexOf(severity);
