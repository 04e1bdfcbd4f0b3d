import { createHash, X509Certificate } from "node:crypto";
import { version } from "../../../../foundation/build.ts";
import { jsonIn, Members } from "../../../../foundation/json-members.ts";
import { OtlpValue } from "../../../../program/otlp/values.ts";
import { entryFields, type IndexedEntry } from "../entry.ts";

/** An event to export: an entry of a log, or a line of the audit trail. */
export interface ExportedEvent {
  /** The same whenever the event is sent again: origin and index of an entry, the digest of a line. */
  readonly uid: string;
  readonly subject: "certificate" | "token" | "authority";
  readonly outcome: "issued" | "refused" | "failed";
  /** RFC 3339. */
  readonly time: string;
  /** The line of JSON. */
  readonly fields: Members;
}

/** Makes an event of an entry. @param origin Of its log. */
export function exportedEntry(origin: string, entry: IndexedEntry): ExportedEvent {
  const fields = { origin, ...entryFields(entry) };
  const subject = fields.proof === "authority" ? "authority" : fields.kind;
  const uid = `${origin}#${entry.idx}`;
  return { uid, subject, outcome: "issued", time: entry.at, fields };
}

/**
 * Makes an event of a line of the audit trail. Words before the JSON, such as journald's, are skipped.
 * @returns `undefined` for every other line, and for what the log has as well.
 */
export function exportedLine(line: string): ExportedEvent | undefined {
  const text = line.slice(line.indexOf("{"));
  const fields = Members.of(jsonIn(text));
  const { event, outcome, time, log } = fields;
  const subject = subjects.get(event);
  const isOutcome = outcome === "refused" || outcome === "failed";
  if (!subject || !(isOutcome || (outcome === "issued" && log === "unlogged"))) return undefined;
  if (typeof time !== "string" || Number.isNaN(Date.parse(time))) return undefined;
  const uid = createHash("sha256").update(text).digest("hex");
  return { uid, subject, outcome, time, fields };
}

const subjects = new Map<unknown, "certificate" | "token">([
  ["create-certificate", "certificate"],
  ["create-token", "token"],
]);

/** The version of OCSF whose classes {@link toOcsf} fills. */
export const ocsfVersion = "1.9.0";

const both = {
  at: "time",
  time: "time",
  origin: "metadata.log_name",
  index: "metadata.sequence",
  requestId: "metadata.correlation_uid",
};

const authenticated = {
  ...both,
  spiffeId: "user.name",
  cluster: "user.domain",
  issuer: "session.issuer",
  tokenId: "session.uid",
  impersonator: "actor.user.name",
  gateway: "src_endpoint.proxy_endpoint.name",
  "pod.name": "src_endpoint.name",
  "pod.uid": "src_endpoint.uid",
  "node.name": "src_endpoint.hostname",
  peer: "src_endpoint.ip",
  reason: "status_code",
  check: "status_detail",
  detail: "message",
};

/**
 * The path in OCSF of each field that has one, by the subject of the event. The paths of `authority` are also for every
 * certificate for which nobody has authenticated. Any other field is in `unmapped` by its own name. A value whose OCSF name ends in
 * `time` becomes milliseconds since 1970.
 */
export const ocsfPaths: Readonly<
  Record<ExportedEvent["subject"], Readonly<Record<string, string>>>
> = {
  certificate: {
    ...authenticated,
    serial: "certificate.serial_number",
    notAfter: "certificate.expiration_time",
  },
  token: { ...authenticated, notAfter: "authentication_token.expiration_time" },
  authority: { ...both, spiffeId: "entity.name", serial: "entity.uid" },
};

/**
 * Converts an event to OCSF. Authentication is the only class of identity and access management that has a certificate,
 * and a refusal belongs to the same class; a certificate for which nobody has authenticated is a created entity.
 */
export function toOcsf({ uid, subject, outcome, fields }: ExportedEvent): Members {
  const isEntity = subject === "authority" || fields["proof"] === "own";
  const event = {
    category_uid: 3,
    class_uid: isEntity ? 3004 : 3002,
    activity_id: 1,
    type_uid: isEntity ? 300401 : 300201,
    severity_id: { issued: 1, refused: 2, failed: 3 }[outcome],
    status_id: outcome === "issued" ? 1 : 2,
    metadata: { version: ocsfVersion, uid, product: { ...rampart, vendor_name: "Rampart" } },
    ...(isEntity ? entity(subject) : authentication(subject, fields)),
  };
  fill(event, ocsfPaths[isEntity ? "authority" : subject], fields);
  return event;
}

const rampart = { name: "Rampart", version };

const entity = (subject: string): Members => ({
  entity: { type_id: 99, type: subject === "authority" ? "Certificate authority" : "Certificate" },
});

function authentication(subject: string, { proof, certificatePem, spiffeId }: Members): Members {
  return {
    // The class needs a name, and a refused caller may have none.
    user: { name: "unknown", type_id: 4, type: "Service" },
    service: { name: "Rampart" },
    ...(proof === "token" && { auth_protocol_id: 4, auth_protocol: "OpenID" }),
    ...(proof !== undefined &&
      proof !== "token" && { auth_protocol_id: 99, auth_protocol: "mTLS" }),
    ...(typeof certificatePem === "string" && {
      certificate: certificate(new X509Certificate(certificatePem), String(spiffeId)),
    }),
    ...(subject === "token" && { authentication_token: { type_id: 3, type: "Identity Token" } }),
  };
}

const certificate = (parsed: X509Certificate, spiffeId: string): Members => ({
  issuer: parsed.issuer.replaceAll("\n", ", "),
  created_time: parsed.validFromDate.getTime(),
  sans: [{ type: "URI", name: spiffeId }],
  fingerprints: [
    { algorithm_id: 3, value: parsed.fingerprint256.replaceAll(":", "").toLowerCase() },
  ],
});

/** Puts each field at its path, and all others into `unmapped`. */
function fill(event: object, paths: Readonly<Record<string, string>>, fields: Members): void {
  const unmapped: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const parts = Object.entries(Members.of(value)).filter(([part]) => paths[`${name}.${part}`]);
    if (paths[name]) put(event, paths[name].split("."), value);
    else if (parts.length === 0) unmapped[name] = value;
    for (const [part, each] of parts) put(event, (paths[`${name}.${part}`] ?? "").split("."), each);
  }
  put(event, ["unmapped"], unmapped);
}

function put(into: object, [name = "", ...rest]: readonly string[], value: unknown): void {
  const members = into as Record<string, unknown>;
  if (rest.length === 0) {
    members[name] = name.endsWith("time") ? Date.parse(`${value}`) : value;
    return;
  }
  members[name] ??= {};
  put(members[name] as object, rest, value);
}

/**
 * Makes a request of OTLP (opentelemetry-proto 1.11, `/v1/logs`) of events.
 * @param bodyOf Makes the body of a record.
 */
export function toOtlp(
  events: readonly ExportedEvent[],
  bodyOf: (event: ExportedEvent) => Members,
  observed: Date,
): Members {
  const logRecords = events.map((event) => {
    const { uid, subject, outcome, time, fields } = event;
    const { traceId, spanId } = fields;
    return {
      timeUnixNano: OtlpValue.nanoseconds(Date.parse(time)),
      observedTimeUnixNano: OtlpValue.nanoseconds(observed.getTime()),
      ...severities[outcome],
      eventName: `rampart.${subject}.${outcome}`,
      body: OtlpValue.of(bodyOf(event)),
      attributes: [{ key: "log.record.uid", value: { stringValue: uid } }],
      ...(typeof traceId === "string" && { traceId }),
      ...(typeof spanId === "string" && { spanId }),
    };
  });
  const scopeLogs = [{ scope: { name: "rampart log follow", version }, logRecords }];
  return { resourceLogs: [{ resource: OtlpValue.resource("rampart"), scopeLogs }] };
}

const severities = {
  issued: { severityNumber: 9, severityText: "INFO" },
  refused: { severityNumber: 13, severityText: "WARN" },
  failed: { severityNumber: 17, severityText: "ERROR" },
} as const;
