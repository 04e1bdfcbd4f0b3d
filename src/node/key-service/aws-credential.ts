import {
  KeyServiceError,
  membersOf,
  remembered,
  textOf,
} from "../../custody/key-service/key-service.ts";
import { isSafeToFetch } from "../../foundation/text.ts";
import { readTokenFile } from "../../program/files/small-file.ts";
import { credentialsInEnvironment } from "../stores/store-place.ts";
import { askFor, askMetadata, headerOf, type Machine } from "./cloud-credentials.ts";

/** A credential in the form of `aws configure export-credentials`, and its seconds. */
interface AwsCredential {
  readonly token: string;
  readonly seconds: number;
}

/**
 * Looks where AWS's own tools look, in their order: keys in variables, web identity (IRSA), the endpoint of a
 * container, the instance (IMDSv2). What ends is asked for anew before it does.
 */
export function findAwsCredential(machine: Machine): () => Promise<string | undefined> {
  const { environment, clock } = machine;
  const renewed = remembered(clock, () => obtain(machine));
  return async () => {
    const keys = await credentialsInEnvironment(environment)?.();
    if (!keys) return isOff(environment) ? undefined : renewed();
    const { accessKeyId, secretAccessKey, sessionToken } = keys;
    return JSON.stringify({
      AccessKeyId: accessKeyId,
      SecretAccessKey: secretAccessKey,
      SessionToken: sessionToken,
    });
  };
}

const isOff = ({
  AWS_WEB_IDENTITY_TOKEN_FILE: web,
  AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: relative,
  AWS_CONTAINER_CREDENTIALS_FULL_URI: full,
  AWS_EC2_METADATA_DISABLED: disabled,
}: Machine["environment"]): boolean => !(web ?? relative ?? full) && disabled === "true";

function obtain(machine: Machine): Promise<AwsCredential> {
  const {
    AWS_WEB_IDENTITY_TOKEN_FILE: file,
    AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: relative,
    AWS_CONTAINER_CREDENTIALS_FULL_URI: full,
  } = machine.environment;
  if (file) return assumeRole(machine, file);
  const url = relative ? `http://169.254.170.2${relative}` : full;
  return url ? ofContainer(machine, url) : ofInstance(machine);
}

/** Trades the token in a file, which a kubelet replaces, for keys of a role. Its answer is XML. */
async function assumeRole(machine: Machine, file: string): Promise<AwsCredential> {
  const { environment } = machine;
  const { AWS_ROLE_ARN: role, AWS_ROLE_SESSION_NAME: session = "rampart" } = environment;
  if (!role)
    throw new KeyServiceError(
      "cannot be asked: AWS_ROLE_ARN is required beside AWS_WEB_IDENTITY_TOKEN_FILE",
    );
  const form = new URLSearchParams({
    ...{ Action: "AssumeRoleWithWebIdentity", Version: "2011-06-15" },
    ...{ RoleArn: role, RoleSessionName: session },
    WebIdentityToken: await readTokenFile(file),
  });
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const init = { method: "POST", headers, body: form.toString() };
  const { text } = await askFor("STS of AWS", machine, stsUrl(environment), init);
  const inXml = (name: string): [string, string | undefined] => [
    name,
    new RegExp(`<${name}>\\s*([!-;=?-~]{1,16384})\\s*</${name}>`).exec(text)?.[1],
  ];
  return credentialOf(machine, Object.fromEntries([...members, "SessionToken"].map(inXml)));
}

/** @throws KeyServiceError */
function stsUrl(environment: Machine["environment"]): string {
  const region = environment["AWS_REGION"] ?? environment["AWS_DEFAULT_REGION"];
  const suffix = region?.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  const usual = `https://sts.${region ? `${region}.` : ""}${suffix}/`;
  const url = environment["AWS_ENDPOINT_URL_STS"] ?? usual;
  if (isSafeToFetch(url)) return url;
  throw new KeyServiceError("cannot be asked: AWS_ENDPOINT_URL_STS must be an https URL");
}

/** ECS, and EKS Pod Identity, whose token is in a file. */
async function ofContainer(machine: Machine, url: string): Promise<AwsCredential> {
  const {
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
    AWS_CONTAINER_AUTHORIZATION_TOKEN: given = "",
  } = machine.environment;
  const token = file ? await readTokenFile(file) : given;
  const name = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
  const headers = token === "" ? {} : { authorization: headerOf(name, token) };
  const { json } = await askMetadata("the container's endpoint", machine, url, { headers });
  return credentialOf(machine, membersOf(json));
}

/** IMDSv2: a token first, without which no stranger's request reaches the keys through a proxy. */
async function ofInstance(machine: Machine): Promise<AwsCredential> {
  const { AWS_EC2_METADATA_SERVICE_ENDPOINT: given = "http://169.254.169.254" } =
    machine.environment;
  const what = "there is no KEY_CREDENTIAL_AWSKMS, and the metadata service of EC2";
  const at = (path: string): string => `${given.replace(/\/$/, "")}/latest/${path}`;
  const { text: token } = await askMetadata(what, machine, at("api/token"), {
    method: "PUT",
    headers: { "x-aws-ec2-metadata-token-ttl-seconds": "21600" },
  });
  const headers = { "x-aws-ec2-metadata-token": headerOf("the token of EC2", token.trim()) };
  const roles = at("meta-data/iam/security-credentials/");
  const { text: role } = await askMetadata(what, machine, roles, { headers });
  const name = encodeURIComponent(role.trim().split("\n")[0] ?? "");
  const { json } = await askMetadata(what, machine, `${roles}${name}`, { headers });
  return credentialOf(machine, membersOf(json));
}

const members = ["AccessKeyId", "SecretAccessKey", "Token", "Expiration"];

/** @throws KeyServiceError for an answer without its parts, or of keys that have ended. */
function credentialOf(
  { clock }: Machine,
  answer: Readonly<Record<string, unknown>>,
): AwsCredential {
  const seconds = (Date.parse(textOf(answer, "Expiration")) - clock().getTime()) / 1000;
  if (!(seconds > 0)) throw new KeyServiceError("cannot be asked: its credential has expired");
  const token = JSON.stringify({
    AccessKeyId: textOf(answer, "AccessKeyId"),
    SecretAccessKey: textOf(answer, "SecretAccessKey"),
    SessionToken: answer["SessionToken"] ?? textOf(answer, "Token"),
  });
  return { token, seconds };
}
