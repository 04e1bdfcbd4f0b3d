import { Mint } from "../../../ca/mint.ts";
import { revocationOf } from "../../../ca/revocation/crl-plan.ts";
import { PublishedCrls } from "../../../ca/revocation/published-crls.ts";
import { RevocationStatements } from "../../../ca/revocation/record-revocations.ts";
import type { RevocationContent } from "../../../custody/record-kinds.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { instant } from "../../../foundation/text.ts";
import type { SigningAuthority } from "../../../pki/authority/signing-authority.ts";
import { SerialNumber } from "../../../pki/encoding/serial-number.ts";
import type { RevocationReason } from "../../../pki/x509/crl/crl-to-be-signed.ts";
import { addSeconds, wholeSeconds } from "../../../pki/x509/validity.ts";
import { Session, type SessionOptions } from "../../session/session.ts";
import { requireWhy, usageError } from "../../terminal/command-line.ts";
import { formatTable } from "../../terminal/table.ts";
import type { Screen } from "../../terminal/terminal.ts";
import { configuredAnyway, formatInstant, printable, quoted } from "../../terminal/text.ts";
import { type SearchFields, searchFieldsIn } from "../log/entry.ts";
import type { FollowerOptions } from "../log/follower.ts";
import {
  type Candidate,
  candidateInFile,
  candidateOfSerial,
  type LoggedCandidates,
  loggedCandidates,
} from "./candidates.ts";

/** The options of `certificate revoke`. */
export interface RevokeOptions extends SessionOptions, FollowerOptions, SearchFields {
  readonly withRenewals?: boolean;
  readonly authority?: string;
  readonly expiresAt?: string;
  readonly reason: RevocationReason;
  readonly why?: string;
}

/**
 * Revokes the chosen certificates that are valid and not revoked yet, after a confirmation; notices say how many are
 * left out, and why.
 * @throws OperatorError for wrong usage, without a reason that is needed, without the confirmation, and for too many
 *   revocations.
 */
export async function revoke(
  session: Session,
  choices: readonly string[],
  options: RevokeOptions,
): Promise<void> {
  requireMainStore(options);
  requireWhy(options.why);
  const { terminal, mint, now, isDry, place } = session;
  const { revocations } = await Session.openToWrite(session);
  const { candidates: chosen, ...others } = await choose(session, choices, options);
  const known = [...revocations, ...session.configuration.configuredRevocations];
  const valid = chosen.filter(({ notAfter }) => notAfter >= now);
  const open = valid.filter((each) => !revocationOf(known, each));
  for (const [count, why] of [
    [others.foreign, "signed by no authority in the trust bundle"],
    [others.tokens, "JWT-SVIDs, which end by themselves: `rampart deny` stops further ones"],
    [chosen.length - valid.length, "expired"],
    [valid.length - open.length, "revoked already"],
  ] as const) {
    if (count > 0) terminal.notice(`rampart: left out ${count} of the chosen certificates: ${why}`);
  }
  if (open.length === 0) return terminal.print("There is nothing to revoke.");
  requireRoom(revocations, statementsFor(session, now, open, options));
  terminal.print(formatCandidates(terminal, open));
  const those = open.length === 1 ? "this certificate" : `these ${open.length} certificates`;
  await Session.confirm(session, `Revoke ${those}? Nothing takes it back.`);
  // Made after the confirmation, which may take long: `knownFrom` is computed from the time of the write.
  const statements = statementsFor(session, terminal.clock(), open, options);
  await RevocationStatements.record(mint, statements);
  const knownBy = Mint.knownFrom(mint, terminal.clock());
  if (isDry) return terminal.print(`\nNothing was written to the ${place}.`);
  printNextSteps(session, open, statements, knownBy, options);
}

/**
 * Refuses the option `--signer`, because the store of the unnamed authorities has all revocations.
 * @throws OperatorError for wrong usage.
 */
export function requireMainStore({ signer }: SessionOptions): void {
  if (signer === undefined) return;
  throw usageError("leave out --signer: the revocations of all signers are in the store of the CA");
}

async function choose(
  session: Session,
  choices: readonly string[],
  options: RevokeOptions,
): Promise<LoggedCandidates> {
  const authorities = await authoritiesOf(session);
  const hasLog = options.url !== undefined || options.dir !== undefined;
  const fields = searchFieldsIn(options);
  if (choices.length === 0 && !fields) {
    throw usageError(
      "say which certificates: serial numbers, files, or a search in the log such as --node",
    );
  }
  if (!hasLog && (fields || options.withRenewals)) {
    throw usageError("name the log that is searched: --url of its prefix, --dir of a copy");
  }
  const serials = choices.filter(SerialNumber.mayBe).map(SerialNumber.typed);
  const files = choices.filter((choice) => !SerialNumber.mayBe(choice));
  const inFiles: Candidate[] = [];
  for (const file of files) inFiles.push(await candidateInFile(file, authorities));
  if (!hasLog) {
    const { authority } = options;
    const until = expiryOf(session, options);
    const named = serials.map((each) => candidateOfSerial(each, authorities, { authority, until }));
    return { candidates: distinct([...inFiles, ...named]), foreign: 0, tokens: 0 };
  }
  const { withRenewals = false } = options;
  const shown = inFiles.map(({ serialNumber }) => serialNumber);
  const choice = { serials, shown, fields, withRenewals };
  const logged = await loggedCandidates(session.terminal, options, choice, authorities);
  return { ...logged, candidates: distinct([...inFiles, ...logged.candidates]) };
}

async function authoritiesOf({ currentView }: Session): Promise<readonly SigningAuthority[]> {
  const view = await currentView();
  if (!view) throw new OperatorError("the store of authorities cannot be read");
  return PublishedCrls.issuersIn(view).map(({ authority }) => authority);
}

/** When the revocation may be deleted: `--expires-at`, or the longest life of a leaf from now on. */
function expiryOf({ mint, now }: Session, { expiresAt }: RevokeOptions): Date {
  if (expiresAt === undefined) return addSeconds(now, mint.phaseLengths.longestLeafSeconds);
  const parsed = instant.safeParse(expiresAt);
  if (parsed.success) return parsed.data;
  throw usageError("--expires-at must be an instant, such as 2027-01-31T12:00:00Z");
}

function distinct(candidates: readonly Candidate[]): readonly Candidate[] {
  const named = candidates.map((each) => [`${each.authority}/${each.serialNumber}`, each] as const);
  return [...new Map(named).values()];
}

function statementsFor(
  { mint }: Session,
  now: Date,
  candidates: readonly Candidate[],
  { reason, why }: RevokeOptions,
): readonly RevocationContent[] {
  const stated = {
    revokedAt: wholeSeconds(now),
    knownFrom: Mint.knownFrom(mint, now),
    reason,
    why,
  };
  const byAuthority = Map.groupBy(candidates, ({ authority }) => authority);
  return [...byAuthority].flatMap(([authority, own]) => {
    const certificates = new Map(
      own.map(({ serialNumber, notAfter }) => [serialNumber, Math.ceil(notAfter.getTime() / 1000)]),
    );
    return RevocationStatements.of({ ...stated, authority, certificates });
  });
}

function requireRoom(
  stored: readonly RevocationContent[],
  added: readonly RevocationContent[],
): void {
  const all = [...stored, ...added];
  if (all.length > RevocationStatements.maximum) {
    throw new OperatorError(
      `the store holds ${stored.length} revocations already, of ${RevocationStatements.maximum} at most: revoke many certificates at once, or wait until old ones have expired`,
    );
  }
  const certificates = all.reduce((sum, each) => sum + each.certificates.size, 0);
  if (certificates <= RevocationStatements.maximumRevoked) return;
  const ids = [...new Set(added.map(({ authority }) => authority))];
  const taints = ids.map((id) => `\`rampart authority taint ${id} --root with-last-leaf\``);
  throw new OperatorError(
    `more than ${RevocationStatements.maximumRevoked} certificates would be revoked: taint their authority instead (${taints.join(", ")})`,
  );
}

/** The most names for which a denial is suggested. */
const maximumSuggestions = 5;

/** The most certificates for which an entry of `REVOKED` is printed: a variable of a Worker has 5 kB. */
const maximumConfigured = 50;

/** Prints when the revocation takes effect, what it does not do, and which commands do that. */
function printNextSteps(
  session: Session,
  revoked: readonly Candidate[],
  statements: readonly RevocationContent[],
  knownBy: Date,
  fields: SearchFields,
): void {
  const { terminal, configuration } = session;
  terminal.print(`
Every process of the CA knows of it by ${knownBy.toISOString()}. From then on they are no credentials for a renewal.`);
  terminal.print(
    configuration.crl
      ? "They are on the CRLs by then. A verifier refuses them once it has the new CRL of their authority."
      : 'CRL is off, so verifiers go on accepting them until they expire: set CRL = "on".',
  );
  terminal.print(`
Their holders may get new certificates. To prevent that as well:
${denials(revoked, fields)
  .map((subject) => `  rampart deny add ${quoted(printable(subject))}`)
  .join("\n")}`);
  if (revoked.length > maximumConfigured) return;
  const entries = [...configuration.configuredRevocations, ...statements];
  terminal.print(configuredAnyway("revocation", "REVOKED", entries.map(formatRevoked)));
}

function denials(revoked: readonly Candidate[], fields: SearchFields): readonly string[] {
  const { node, cluster, tokenId, namespace, account } = fields;
  const searched = [
    ...(tokenId === undefined ? [] : [`token/${tokenId}`]),
    ...(node === undefined ? [] : [`node/${node}`]),
    ...(cluster === undefined ? [] : [`cluster/${cluster}`]),
    ...(namespace === undefined && account === undefined
      ? []
      : [`'ns/${namespace ?? "*"}/sa/${account ?? "*"}'`]),
  ];
  if (searched.length > 0) return searched;
  const names = revoked.flatMap(({ name }) => (name?.startsWith("spiffe://") ? [name] : []));
  const distinct = [...new Set(names)];
  return distinct.length > 0 && distinct.length <= maximumSuggestions
    ? distinct
    : ["<SPIFFE ID, node/<name>, pod/<uid> or token/<jti>>"];
}

/** The most rows that are printed before the question. */
const maximumRows = 100;

/** Formats certificates as a table; of more than 100 only the last 100, after the number of those left out. */
export function formatCandidates(screen: Screen, candidates: readonly Candidate[]): string {
  const shown = candidates.slice(-maximumRows);
  const rows = shown.map(({ serialNumber, name, cluster, node, issuedAt, notAfter, authority }) =>
    [
      SerialNumber.shown(serialNumber),
      name,
      cluster,
      node,
      issuedAt && formatInstant(issuedAt),
      formatInstant(notAfter),
      authority.slice(0, 8),
    ].map((cell) => printable(cell || "-")),
  );
  const headings = ["SERIAL", "NAME", "CLUSTER", "NODE", "ISSUED", "EXPIRES", "AUTHORITY"];
  const more = candidates.length - shown.length;
  return `${more > 0 ? `${more} certificates, and these:\n` : ""}${formatTable(screen, headings, rows, ["NAME", "NODE", "CLUSTER"])}`;
}

/** Formats a revocation as an entry of `REVOKED`, in TOML. */
export function formatRevoked(content: RevocationContent): string {
  const { authority, certificates, revokedAt, reason, why } = content;
  const end = new Date(1000 * Math.max(...certificates.values()));
  const serials = [...certificates.keys()]
    .map((each) => `"${SerialNumber.shown(each)}"`)
    .join(", ");
  const members = [
    `authority = ${JSON.stringify(authority)}`,
    `serials = [${serials}]`,
    `since = "${wholeInstant(revokedAt)}"`,
    `until = "${wholeInstant(end)}"`,
    ...(reason === "unspecified" ? [] : [`reason = "${reason}"`]),
    ...(why === undefined ? [] : [`why = ${JSON.stringify(why)}`]),
  ];
  return `{ ${members.join(", ")} }`;
}

const wholeInstant = (instant: Date): string => instant.toISOString().replace(".000Z", "Z");
