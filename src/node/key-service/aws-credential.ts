import { awsKeysIn } from "../../custody/key-service/aws-kms.ts";
import { AwsKeys } from "../../custody/key-service/aws-signature.ts";
import { type Credential, KeyServiceError } from "../../custody/key-service/key-service.ts";
import { ServiceCall } from "../../custody/key-service/service-call.ts";
import { isSafeToFetch } from "../../foundation/addresses.ts";
import { OperatorError } from "../../foundation/errors.ts";
import type { Members } from "../../foundation/json-members.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import { fingerprintOf } from "../../pki/encoding/bytes.ts";
import { SmallFile, TokenFile } from "../../program/files/small-file.ts";
import type { Environment } from "../files/places.ts";
import { askFor, askMetadata, type Machine, machineWith } from "./cloud-credentials.ts";

/**
 * Chooses the source of a machine's credential, in the order of AWS's own tools: keys in variables, web identity
 * (IRSA), the endpoint of a container (ECS, EKS Pod Identity), the instance (IMDSv2). The first source that is
 * configured is used, and no other is tried when it fails.
 *
 * @param key What else the operator could have set, for the sentence about an instance without a credential.
 * @returns A function that asks for the credential; `undefined` if `AWS_EC2_METADATA_DISABLED` leaves no source.
 */
export function awsCredentialOf(
  machine: Machine,
  key: string,
): (() => Promise<Credential>) | undefined {
  const { environment } = machine;
  const {
    AWS_WEB_IDENTITY_TOKEN_FILE: file,
    AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: relative,
    AWS_CONTAINER_CREDENTIALS_FULL_URI: full,
  } = environment;
  const keys = keysInVariables(environment);
  if (keys) return async () => keys;
  if (file) return () => assumeRole(machine, file);
  const url = relative ? `http://169.254.170.2${relative}` : full;
  if (url) return () => ofContainer(machine, url);
  const isDisabled = environment["AWS_EC2_METADATA_DISABLED"] === "true";
  return isDisabled ? undefined : () => ofInstance(machine, key);
}

/** Returns the keys that are valid now. @throws OperatorError, KeyServiceError */
export type FindAwsKeys = (now: Date) => Promise<AwsKeys>;

/**
 * Finds the keys of a machine for S3, or for another service. Expiring keys are fetched again a minute before, once for
 * all callers. Like {@link awsCredentialOf} it may return `undefined`.
 * @param key What else the operator could have set.
 */
export function awsKeysOf(
  environment: Environment,
  key = "S3_CREDENTIALS_FILE",
): FindAwsKeys | undefined {
  const credential = awsCredentialOf(machineWith(environment), key);
  if (!credential) return undefined;
  const access = ServiceCall.remembered(async (now) => awsKeysIn(await credential(), now));
  const flight = new SingleFlight<AwsKeys>();
  return async (now) => {
    const keys = await flight.join(() => access(now));
    if (fitHeaders(keys)) return keys;
    throw new KeyServiceError(
      "cannot be asked: its credential has characters that no header takes",
    );
  };
}

const maximumOctets = 65_536;

/**
 * Finds the keys in a file of the form that AWS's tools share, in its profile `default` or in front of every profile.
 * The file is read again at most once a second, because others rotate its keys.
 */
export function awsKeysInFile(path: string): FindAwsKeys {
  const reads = new SingleFlight<{ readonly keys: AwsKeys; readonly at: number }>();
  return async (now) => {
    const at = now.getTime();
    const read = async () => ({ keys: await readKeys(path), at });
    const isFresh = (last: { readonly at: number }) => Math.abs(at - last.at) < 1000;
    return (await reads.join(read, isFresh)).keys;
  };
}

async function readKeys(path: string): Promise<AwsKeys> {
  const keys = toKeys(parseDefaultProfile(await SmallFile.read(path, maximumOctets)));
  if (keys) return keys;
  throw new OperatorError(`${path} must hold aws_access_key_id and aws_secret_access_key`);
}

function keysInVariables(environment: Environment): Members | undefined {
  const values = Object.entries(environment).map(
    ([name, value]) => [name.toLowerCase(), value?.trim() ?? ""] as const,
  );
  const { accessKeyId, secretAccessKey, sessionToken } = toKeys(new Map(values)) ?? {};
  if (!accessKeyId) return undefined;
  return {
    AccessKeyId: accessKeyId,
    SecretAccessKey: secretAccessKey,
    SessionToken: sessionToken,
  };
}

function parseDefaultProfile(text: string): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  let isDefault = true;
  for (const line of text.split(/\r?\n/)) {
    const [, profile] = /^\s*\[\s*(.*?)\s*\]/.exec(line) ?? [];
    if (profile !== undefined) isDefault = profile === "default";
    const [, key, value] = /^\s*([a-z_]+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (isDefault && key !== undefined && value !== undefined) values.set(key, value);
  }
  return values;
}

function toKeys(values: ReadonlyMap<string, string>): AwsKeys | undefined {
  const keys = {
    accessKeyId: values.get("aws_access_key_id") ?? "",
    secretAccessKey: values.get("aws_secret_access_key") ?? "",
    sessionToken: values.get("aws_session_token") || undefined,
  };
  return fitHeaders(keys) ? keys : undefined;
}

/** Whether the keys fit into headers. They are checked here, because the platform's error would quote them. */
const fitHeaders = ({ accessKeyId, secretAccessKey, sessionToken }: AwsKeys): boolean =>
  /^[!-+\-.0-~]{1,256}$/.test(accessKeyId) &&
  /^[!-~]{1,1024}$/.test(secretAccessKey) &&
  (sessionToken === undefined || /^[!-~]{1,16384}$/.test(sessionToken));

/** Exchanges the token in a file, which a kubelet replaces, for keys of a role. STS answers XML. */
async function assumeRole(machine: Machine, file: string): Promise<Credential> {
  const { environment } = machine;
  const { AWS_ROLE_ARN: role, AWS_ROLE_SESSION_NAME: session = "rampart" } = environment;
  if (!role)
    throw new KeyServiceError(
      "cannot be asked: AWS_ROLE_ARN is required beside AWS_WEB_IDENTITY_TOKEN_FILE",
    );
  const form = ServiceCall.inForm({
    Action: "AssumeRoleWithWebIdentity",
    Version: "2011-06-15",
    RoleArn: role,
    RoleSessionName: session,
    WebIdentityToken: await TokenFile.read(file),
  });
  const { text } = await askFor(sts, machine, stsUrl(environment), form);
  const inXml = (name: string) => [name, textIn(text, name)];
  return keysIn(sts, Object.fromEntries([...members, "SessionToken"].map(inXml)));
}

/**
 * Asks STS for tokens that name the role of this machine, for an audience (`GetWebIdentityToken`). Each is requested
 * anew and valid for five minutes. The functions created throw OperatorError.
 *
 * @returns `undefined` if the machine has no credential, or no region: only regional endpoints of STS grant such tokens.
 */
export function awsTokensOf(
  variables: Environment,
  clock: () => Date,
): (audience: string) => ((signal: AbortSignal) => Promise<string>) | undefined {
  const machine = machineWith(variables);
  const region = regionOf(machine.environment);
  const findKeys = awsKeysOf(variables, "AWS_ACCESS_KEY_ID");
  return (audience) => {
    if (region === undefined || !findKeys) return undefined;
    const { body, ...form } = ServiceCall.inForm({
      Action: "GetWebIdentityToken",
      Version: "2011-06-15",
      "Audience.member.1": audience,
      SigningAlgorithm: "ES384",
      DurationSeconds: "300",
    });
    const digest = fingerprintOf(new TextEncoder().encode(body));
    const obtain = async (signal: AbortSignal): Promise<string> => {
      const url = stsUrl(machine.environment);
      const request = { ...form, url: new URL(url), digest };
      const now = clock();
      const headers = await AwsKeys.signedHeaders(
        request,
        await findKeys(now),
        [region, "sts"],
        now,
      );
      const { text } = await askFor(sts, machine, url, { ...form, body, headers, signal });
      const token = textIn(text, "WebIdentityToken");
      if (token !== undefined) return token;
      throw new KeyServiceError(`cannot be asked: ${sts} answered without a token`);
    };
    return (signal) =>
      obtain(signal).catch((error: unknown) => {
        if (!(error instanceof KeyServiceError)) throw error;
        throw new OperatorError(`AWS ${error.message}`);
      });
  };
}

const sts = "STS of AWS";

const regionOf = (environment: Machine["environment"]): string | undefined =>
  environment["AWS_REGION"] ?? environment["AWS_DEFAULT_REGION"];

/** The text of an XML element without child elements; `undefined` if there is none. */
const textIn = (xml: string, name: string): string | undefined =>
  new RegExp(`<${name}>\\s*([!-;=?-~]{1,16384})\\s*</${name}>`).exec(xml)?.[1];

/** @throws KeyServiceError */
function stsUrl(environment: Machine["environment"]): string {
  const region = regionOf(environment);
  const usual = `https://sts.${region ? `${region}.` : ""}${AwsKeys.domain(region)}/`;
  const url = environment["AWS_ENDPOINT_URL_STS"] ?? usual;
  if (isSafeToFetch(url)) return url;
  throw new KeyServiceError("cannot be asked: AWS_ENDPOINT_URL_STS must be an https URL");
}

/** Asks the endpoint of a container: ECS, or EKS Pod Identity, whose token is in a file. */
async function ofContainer(machine: Machine, url: string): Promise<Credential> {
  const {
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
    AWS_CONTAINER_AUTHORIZATION_TOKEN: given = "",
  } = machine.environment;
  const token = file ? await TokenFile.read(file) : given;
  const headers = token === "" ? {} : { authorization: token };
  const what = "the container's endpoint";
  return keysIn(what, (await askMetadata(what, machine, url, { headers })).members);
}

/** Asks the instance (IMDSv2), first for a token, which a request through an open proxy cannot get. */
async function ofInstance(machine: Machine, key: string): Promise<Credential> {
  const { AWS_EC2_METADATA_SERVICE_ENDPOINT: given = "http://169.254.169.254" } =
    machine.environment;
  const what = `there is no ${key}, and the metadata service of EC2`;
  const askInstance = (path: string, method: string, headers: Readonly<Record<string, string>>) =>
    askMetadata(what, machine, `${given.replace(/\/$/, "")}/latest/${path}`, { method, headers });
  const seconds = { "x-aws-ec2-metadata-token-ttl-seconds": "21600" };
  const { text } = await askInstance("api/token", "PUT", seconds);
  const headers = { "x-aws-ec2-metadata-token": text.trim() };
  const roles = "meta-data/iam/security-credentials/";
  const [role = ""] = (await askInstance(roles, "GET", headers)).text.trim().split("\n");
  const ofRole = await askInstance(roles + encodeURIComponent(role), "GET", headers);
  return keysIn(what, ofRole.members);
}

const members = ["Expiration", "AccessKeyId", "SecretAccessKey"];

/**
 * Reads the keys from a response. @param what The service as the subject of a sentence. @throws KeyServiceError for a
 * response without keys.
 */
function keysIn(what: string, { SessionToken, Token, ...answer }: Members): Credential {
  const all: Members = { ...answer, SessionToken: SessionToken ?? Token };
  const missing = [...members, "SessionToken"].find((name) => !all[name]);
  if (missing === undefined) return all;
  throw new KeyServiceError(`cannot be asked: ${what} answered without ${missing}`);
}
