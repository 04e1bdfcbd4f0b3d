import * as z from "zod/mini";
import { Denial } from "../ca/denial.ts";
import { RevocationContent } from "../custody/record-kinds.ts";
import { commonName } from "../foundation/globs.ts";
import { instant, jsonText, parsedText, refuse } from "../foundation/text.ts";
import type { ConfiguredTaint } from "../pki/authority/taint.ts";
import { SerialNumber } from "../pki/encoding/serial-number.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { RevocationReason } from "../pki/x509/crl/crl-to-be-signed.ts";
import { PodKeyProof } from "../pki/x509/pod-key-proof.ts";
import { wholeSeconds } from "../pki/x509/validity.ts";
import { matching } from "./form.ts";
import { recordedNames } from "./internal/subject-table.ts";
import type { IssuerTable } from "./issuer-table.ts";

/** Accepts a table, or one text in place of a table with only this member. */
const tableOrText = <Shape extends z.core.$ZodShape>(
  member: keyof Shape & string,
  table: z.ZodMiniObject<Shape, z.core.$strict>,
): z.ZodMiniType<z.output<typeof table>> =>
  z.pipe(
    z.transform((value: unknown) => (typeof value === "string" ? { [member]: value } : value)),
    table,
  );

const denialTable = tableOrText(
  "subject",
  z.strictObject({
    subject: z.string(),
    since: z.optional(instant),
    until: z.optional(instant),
    why: z.optional(z.string().check(z.maxLength(200))),
  }),
);

/** Parses a table of `DENIED`. It requires `since` for what tokens alone show: nodes, pods, tokens, claims. */
export const denial = z.pipe(
  denialTable,
  z.transform(({ subject, since, until, why }, context): Denial => {
    // `since` has a meaning only for subjects that tokens alone show, and is required for these.
    const found = Denial.parse({ subject, knownFrom: since ?? new Date(0), until, why });
    if (!found) return refuse(context, `subject must be ${Denial.forms}`);
    if (!isShownByToken(found) || since !== undefined) return found;
    return refuse(context, "since is required for a node, a pod, a token and its claims");
  }),
);

/** Whether a denial names what only tokens show, and certificates do not. */
export const isShownByToken = ({ shownBy }: Denial): boolean =>
  shownBy === "token" || shownBy === "claims";

/** `DENIED`: a list of subjects and tables, or the same as JSON in a text. */
export const deniedTable = z.pipe(jsonText, z.array(denial).check(z.maxLength(100)));

/** The clusters and issuers of a mesh. A denial of any other has no effect. */
interface Deniable {
  readonly trustDomain: TrustDomain;
  readonly issuers: readonly Pick<
    IssuerTable,
    "issuer" | "cluster" | "cluster_aliases" | "namespaces" | "subjects" | "recorded_claims"
  >[];
}

const accountPattern = /^(?:spiffe:\/\/([^/]*)\/)?ns\/([^/]*)\//;
const namedPattern = /^(cluster|issuer|pod|token|subject|claim)\/(.*)$/;
/** The form of the UID that the kubelet gives to a static pod, which comes from a file. */
const filePodUidPattern = /^[0-9a-f]{32}$/;

type Compared =
  | { readonly subject: string; readonly fault?: never }
  | { readonly fault: string; readonly subject?: never };

/**
 * The subject as the CA compares it.
 *
 * @returns A fault, in a sentence, for a subject that no caller can have. Whether a node, pod or token
 *   exists is not checked, because no CA knows.
 */
export function deniableSubject(subject: string, { trustDomain, issuers }: Deniable): Compared {
  const [, domain = trustDomain, namespace] = accountPattern.exec(subject) ?? [];
  if (domain !== trustDomain) {
    return { fault: `${subject} is not of this trust domain, ${trustDomain}` };
  }
  const [, kind, name = ""] = namedPattern.exec(subject) ?? [];
  switch (kind) {
    case "pod":
      return podOf(name, subject);
    case "token":
      // The audit log of an API server writes `JTI=` before the id.
      return { subject: subject.replace(/^token\/JTI=(?=.)/, "token/") };
    case "subject":
    case "claim":
      return claimedOf(kind, name, subject, issuers);
    case "cluster":
      return clusterOf(name, issuers);
    case "issuer": {
      const urls = issuers.map(({ issuer }) => `issuer/${issuer}`);
      return urls.includes(subject) ? { subject } : absent(`URL ${name}`, urls);
    }
    default:
      return namespace === undefined ? { subject } : accountOf(namespace, subject, issuers);
  }
}

function podOf(name: string, subject: string): Compared {
  const uid = name.toLowerCase();
  return PodKeyProof.podUid.test(uid) || filePodUidPattern.test(uid)
    ? { subject: `pod/${uid}` }
    : { fault: `${subject} has no UID, which \`kubectl get pod -o yaml\` shows` };
}

function claimedOf(
  kind: "subject" | "claim",
  name: string,
  subject: string,
  issuers: Deniable["issuers"],
): Compared {
  const names = issuers.flatMap(recordedNames);
  const isClaimed =
    kind === "subject"
      ? issuers.some(({ subjects }) => subjects)
      : names.includes(name.split("=", 1)[0] ?? "");
  const claims = names.map((each) => `claim/${each}=…`);
  return isClaimed ? { subject } : absent(subject, claims);
}

function clusterOf(name: string, issuers: Deniable["issuers"]): Compared {
  const found = issuers.filter((each) => [each.cluster, ...each.cluster_aliases].includes(name));
  const clusters = new Set(found.map(({ cluster }) => cluster));
  // An alias may be the name of another cluster, or an alias of several.
  const [cluster = name, other] = clusters.has(name) ? [name] : clusters;
  if (found.length > 0 && other === undefined) return { subject: `cluster/${cluster}` };
  const meant = found.length > 0 ? found : issuers;
  const known = meant.map((each) => `cluster/${each.cluster}`);
  return absent(`cluster ${name}`, known);
}

function accountOf(namespace: string, subject: string, issuers: Deniable["issuers"]): Compared {
  const globs = issuers.flatMap(({ namespaces }) => namespaces);
  if (globs.some((glob) => commonName(namespace, glob) !== undefined)) return { subject };
  const known = globs.map((glob) => `ns/${glob}`);
  return absent(`namespace ${namespace}`, known);
}

const absent = (what: string, known: readonly string[]): Compared => ({
  fault: `no issuer of ISSUERS has the ${what}: there are ${[...new Set(known)].slice(0, 20).join(", ") || "none"}`,
});

/**
 * Parses `DENIED` for comparisons. @returns All denials, and a sentence for each that can match nobody of this mesh.
 */
export function deniedHere(
  denials: readonly Denial[],
  deniable: Deniable,
): { readonly denials: readonly Denial[]; readonly faults: readonly string[] } {
  const read = denials.map((denial) => ({ denial, ...deniableSubject(denial.subject, deniable) }));
  return {
    denials: read.map(({ denial, subject = "" }) => Denial.parse({ ...denial, subject }) ?? denial),
    faults: read.flatMap(({ fault }) => (fault === undefined ? [] : [`DENIED: ${fault}`])),
  };
}

const serial = parsedText((text) => {
  if (!SerialNumber.mayBe(text)) return undefined;
  const content = SerialNumber.content(SerialNumber.typed(text));
  return RevocationContent.isSerialNumber(content) ? content : undefined;
}, "must be a serial number as `certificate revoked` shows it");

const reasons = Object.keys(RevocationReason.codes) as [RevocationReason, ...RevocationReason[]];

const revocationTable = z.strictObject({
  authority: matching(/^[0-9a-f]{40}$/, "must be the id of an authority"),
  serials: z.array(serial).check(z.minLength(1), z.maxLength(100)),
  since: instant,
  until: instant,
  reason: z._default(z.enum(reasons), "unspecified"),
  why: z.optional(z.string().check(z.maxLength(200))),
});

const revocation = z.pipe(
  revocationTable,
  z.transform(({ authority, serials, since, until, reason, why }): RevocationContent => {
    const end = Math.ceil(until.getTime() / 1000);
    const revokedAt = wholeSeconds(since);
    return {
      authority,
      revokedAt,
      knownFrom: revokedAt,
      reason,
      ...(why !== undefined && { why }),
      certificates: new Map(serials.map((each) => [each, end])),
    };
  }),
);

/** `REVOKED`: a list of tables, or the same as JSON in a text. */
export const revokedTable = z.pipe(jsonText, z.array(revocation).check(z.maxLength(100)));

/** The beginning of an id. Sixteen digits are 64 bits: no two authorities of a mesh share them. */
export const idPrefix = matching(
  /^[0-9a-f]{16,64}$/,
  "must be 16 or more lower-case hexadecimal digits of an id",
);

const taint = z.pipe(
  tableOrText("id", z.strictObject({ id: idPrefix, root_until: z.optional(instant) })),
  z.transform(({ id, root_until }): ConfiguredTaint => ({ idPrefix: id, rootUntil: root_until })),
);

/** `TAINTED_AUTHORITIES`: a list of ids and tables, or the same as JSON in a text. */
export const taintedAuthorities = z.pipe(jsonText, z.array(taint).check(z.maxLength(100)));
