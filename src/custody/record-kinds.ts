import { sha256 } from "@noble/hashes/sha2.js";
import * as z from "zod/mini";
import { CaError } from "../foundation/errors.ts";
import { refuse } from "../foundation/text.ts";
import type { Taint } from "../pki/authority/taint.ts";
import { AdditionalRoot } from "../pki/authority/trust-bundle.ts";
import { type Bytes, Hex } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { TokenKey } from "../pki/jose/token-key.ts";
import { CertificateSigningRequest } from "../pki/x509/certificate-signing-request.ts";
import { Crl } from "../pki/x509/crl/crl.ts";
import { RevocationReason } from "../pki/x509/crl/crl-to-be-signed.ts";
import { SubjectPublicKey } from "../pki/x509/subject-public-key.ts";
import {
  Fields,
  RecordError,
  type SealedKey,
  scheduleFields,
  sealFields,
  type ValuesOf,
} from "./record-fields.ts";

const denialFields = {
  /** The description, such as `ns/foo/sa/*` or `node/worker-3`. */
  subject: z.string(),
  /** The instant from which every reader of the store knows the denial. */
  knownFrom: Fields.instant,
  until: z.optional(Fields.instant),
  /** A sentence for other operators. */
  why: z.optional(z.string()),
};

/** An operator's statement that nobody whom its subject describes gets a certificate or a token. */
export type DenialContent = Readonly<ValuesOf<typeof denialFields>>;

/** A positive INTEGER of at most 20 octets in DER (RFC 5280 §4.1.2.2). */
const serialPattern = /^(?=.{2,40}$)(?:00[89a-f][0-9a-f]|[1-7][0-9a-f]|0[1-9a-f])(?:[0-9a-f]{2})*$/;

/** The bounds of a revocation. */
export const RevocationContent = {
  /** Whether this is a serial number as statements spell it. */
  isSerialNumber: (text: string): boolean => serialPattern.test(text),

  /**
   * The most certificates of one revocation. A statement has many, so that a store needs few records; this
   * many fit into a record even with the longest serial numbers.
   */
  maximumCertificates: 4000,
};

const certificates = z.codec(
  z.string().check(z.regex(/^[0-9a-f]+:\d{1,12}(?:,[0-9a-f]+:\d{1,12})*$/)),
  z.custom<ReadonlyMap<string, number>>(),
  {
    decode: (text, context) => {
      const list = text.split(",").map((each) => each.split(":", 2));
      const found = new Map(list.map(([serial = "", end]) => [serial, Number(end)]));
      if (found.size === list.length && [...found.keys()].every(RevocationContent.isSerialNumber))
        return found;
      return refuse(context, "not serial numbers");
    },
    encode: (ends) => [...ends].map((each) => each.join(":")).join(","),
  },
);

const revocationFields = {
  /** The id of the authority that signed them. */
  authority: z.string().check(z.regex(/^[0-9a-f]{2,64}$/)),
  /** In whole seconds. */
  revokedAt: Fields.instant,
  /** The instant from which every reader of the store knows it. */
  knownFrom: Fields.instant,
  reason: z.enum(Object.keys(RevocationReason.codes) as [RevocationReason, ...RevocationReason[]]),
  /** A sentence for other operators. */
  why: z.optional(z.string()),
  /**
   * The serial numbers (content octets in hexadecimal), each with the end of its certificate's validity in
   * seconds since 1970.
   */
  certificates,
};

/** An operator's statement that certificates of one authority are no longer accepted, although they are valid. */
export type RevocationContent = Readonly<ValuesOf<typeof revocationFields>>;

/**
 * The id of the authority or root that a taint is about, read from the name of its record. The name
 * proves nothing until the record opens.
 */
export const taintedSubject = ({ id }: { readonly id: string }): string =>
  id.split("-", 1)[0] ?? id;

/** A request for an intermediate that has no answer yet, with its key (PKCS#8) sealed. */
export interface AuthorityRequest extends SealedKey {
  /** The id of the authority to be. */
  readonly id: string;
  readonly requestedAt: Date;
  /** PKCS#10, DER. */
  readonly csr: Bytes;
  readonly publicKey: SubjectPublicKey;
}

/** A key for tokens as its record has it, with the private key (PKCS#8) sealed. */
export interface SealedTokenKey extends TokenKey, SealedKey {}

/** The content of a statement, in the clear. */
export type StatementContent = Readonly<Record<string, string>>;

/** All that distinguishes the statements of one kind. Sealing, opening and backups read it. */
interface StatementKind<Value> {
  /** The folder of a store in which the records are. */
  readonly folder: string;
  /** The length of the longest record. */
  readonly maximumLength: number;
  readonly content: (value: Value) => StatementContent;
  /** Parses a content. It throws a RecordError `certificate` for one of the right form with a bad certificate or key. */
  readonly schema: z.ZodMiniType<Value>;
  /** Parses the value of an authentic content. @throws RecordError `form`, `certificate`. */
  readonly read: (content: StatementContent) => Value;
  /** The name of a record. It repeats the content, so that no writer overwrites what it has not seen. */
  readonly idOf: (value: Value) => string;
}

/** Describes a kind of statement: its fields, and the value that they make. */
interface Description<F extends Fields, Value> {
  readonly folder: string;
  /** What errors call the record, such as `the statement of a taint`. */
  readonly title: string;
  readonly fields: F;
  readonly values: (value: Value) => ValuesOf<F>;
  readonly make: (values: ValuesOf<F>) => Value;
  readonly idOf: (value: Value, content: StatementContent) => string;
  readonly maximumLength?: number;
}

function statement<F extends Fields, Value>(own: Description<F, Value>): StatementKind<Value> {
  const content = (value: Value): StatementContent =>
    Fields.encode(own.fields, own.values(value)) as StatementContent;
  const schema = z.pipe(
    z.strictObject(own.fields),
    z.transform((values) => own.make(values as ValuesOf<F>)),
  );
  return {
    folder: own.folder,
    maximumLength: own.maximumLength ?? 32 * 1024,
    content,
    schema,
    read: (says) => {
      const parsed = schema.safeParse(says);
      if (parsed.success) return parsed.data;
      throw new RecordError("form", `not ${own.title}`);
    },
    idOf: (value) => own.idOf(value, content(value)),
  };
}

/** The identity function, for a kind whose fields are its value. */
const itself = <T>(value: T): T => value;

/** SHA-256 of the fields and their texts in their order, in hexadecimal: no two contents share a record. */
const contentId = (_: unknown, content: StatementContent): string =>
  Hex.format(sha256(new TextEncoder().encode(JSON.stringify(Object.entries(content)))));

/** The kinds of statement, in the order in which a backup is restored: no authority is back before its taint. */
const statements = {
  taint: statement({
    folder: "taints",
    title: "the statement of a taint",
    fields: { subject: z.string(), taintedAt: Fields.instant, retiresAt: Fields.instant },
    values: ({ id: subject, ...instants }: Taint) => ({ subject, ...instants }),
    make: ({ subject: id, ...instants }) => ({ id, ...instants }),
    // The id has the instants, so that a stricter taint is a second record.
    idOf: ({ id, taintedAt, retiresAt }) =>
      [id, taintedAt.getTime(), retiresAt.getTime()].join("-"),
  }),
  denial: statement({
    folder: "denials",
    title: "the statement of a denial",
    fields: denialFields,
    values: itself<DenialContent>,
    make: itself<DenialContent>,
    idOf: contentId,
  }),
  revocation: statement({
    folder: "revocations",
    title: "the statement of a revocation",
    fields: revocationFields,
    values: itself<RevocationContent>,
    make: itself<RevocationContent>,
    idOf: contentId,
    // Enough for many serial numbers, and below the 256 KiB at which a store of files cuts records.
    maximumLength: 250 * 1024,
  }),
  root: statement({
    folder: "roots",
    title: "the statement of a root",
    fields: { certificate: Fields.octets, publishedFrom: Fields.instant },
    values: ({ roots: [certificate], schedule: { publishedFrom } }: AdditionalRoot) => ({
      certificate,
      publishedFrom,
    }),
    make: ({ certificate, publishedFrom }) =>
      refusing(() => AdditionalRoot.create(certificate, publishedFrom)),
    idOf: ({ id }) => id,
  }),
  request: statement({
    folder: "requests",
    title: "a request for an intermediate",
    fields: {
      requestedAt: Fields.instant,
      csr: Fields.octets,
      ...sealFields,
    },
    values: itself<AuthorityRequest>,
    make: (content) => {
      const publicKey = refusing(() => CertificateSigningRequest.readKey(content.csr));
      return { id: Hex.format(SubjectPublicKey.keyIdentifier(publicKey)), publicKey, ...content };
    },
    idOf: ({ id }) => id,
  }),
  tokenKey: statement({
    folder: "token-keys",
    title: "a key for tokens",
    fields: {
      ...scheduleFields,
      spki: Fields.octets,
      ...sealFields,
    },
    values: ({ schedule, ...key }: SealedTokenKey) => ({ ...schedule, ...key }),
    make: ({ spki, iv, sealedKey, ...schedule }) => ({
      ...refusing(() => TokenKey.create(spki, schedule)),
      iv,
      sealedKey,
    }),
    idOf: ({ id }) => id,
  }),
  crl: statement({
    folder: "crls",
    title: "the CRL of a root",
    fields: { der: Fields.octets },
    values: ({ der }: Crl) => ({ der }),
    make: ({ der }) => refusing(() => Crl.parse(der)),
    idOf: contentId,
  }),
  /** The time of the last backup of the whole store. A store has one such record, which each backup replaces. */
  backup: statement({
    folder: "backups",
    title: "the date of a backup",
    fields: { madeAt: Fields.instant },
    values: itself<{ readonly madeAt: Date }>,
    make: itself<{ readonly madeAt: Date }>,
    idOf: () => "00",
  }),
};

function refusing<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof DerError || error instanceof CaError)) throw error;
    throw new RecordError("certificate", error.message, error);
  }
}

/** The value of a statement of each kind. */
export type Statements = {
  readonly [K in keyof typeof statements]: ReturnType<(typeof statements)[K]["read"]>;
};

/** The kinds of record that a MAC authenticates. A request carries a key, which is sealed by itself. */
export type StatementName = keyof Statements;

/** The table of the statements. */
export const statementKinds: { readonly [K in StatementName]: StatementKind<Statements[K]> } =
  statements;

/** The kind of a record: an authority with its sealed key, or a statement. */
export type RecordKind = "authority" | StatementName;

/** The folders of a store by the kinds of record. */
export const recordFolders = {
  authority: "authorities",
  ...Object.fromEntries(Object.entries(statements).map(([kind, { folder }]) => [kind, folder])),
} as Readonly<Record<RecordKind, string>>;
