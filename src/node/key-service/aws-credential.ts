import {
  type Credential,
  KeyServiceError,
  type Members,
} from "../../custody/key-service/key-service.ts";
import { inForm, textOf } from "../../custody/key-service/service-call.ts";
import { isSafeToFetch } from "../../foundation/text.ts";
import { readTokenFile } from "../../program/files/small-file.ts";
import { awsDomain, credentialsInEnvironment } from "../stores/store-place.ts";
import { askFor, askMetadata, type Machine } from "./cloud-credentials.ts";

/**
 * Looks where AWS's own tools look, in their order: keys in variables, web identity (IRSA), the endpoint of a
 * container, the instance (IMDSv2).
 */
export async function findAwsCredential(machine: Machine): Promise<Credential | undefined> {
  const { environment } = machine;
  const keys = await credentialsInEnvironment(environment)?.();
  if (keys) {
    const { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken } = keys;
    return { AccessKeyId, SecretAccessKey, SessionToken: sessionToken };
  }
  const {
    AWS_WEB_IDENTITY_TOKEN_FILE: file,
    AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: relative,
    AWS_CONTAINER_CREDENTIALS_FULL_URI: full,
  } = environment;
  if (file) return assumeRole(machine, file);
  const url = relative ? `http://169.254.170.2${relative}` : full;
  if (url) return ofContainer(machine, url);
  return environment["AWS_EC2_METADATA_DISABLED"] === "true" ? undefined : ofInstance(machine);
}

/** Trades the token in a file, which a kubelet replaces, for keys of a role. Its answer is XML. */
async function assumeRole(machine: Machine, file: string): Promise<Credential> {
  const { environment } = machine;
  const { AWS_ROLE_ARN: role, AWS_ROLE_SESSION_NAME: session = "rampart" } = environment;
  if (!role)
    throw new KeyServiceError(
      "cannot be asked: AWS_ROLE_ARN is required beside AWS_WEB_IDENTITY_TOKEN_FILE",
    );
  const form = inForm({
    Action: "AssumeRoleWithWebIdentity",
    Version: "2011-06-15",
    RoleArn: role,
    RoleSessionName: session,
    WebIdentityToken: await readTokenFile(file),
  });
  const { text } = await askFor("STS of AWS", machine, stsUrl(environment), form);
  const inXml = (name: string) => [
    name,
    new RegExp(`<${name}>\\s*([!-;=?-~]{1,16384})\\s*</${name}>`).exec(text)?.[1],
  ];
  return keysIn(Object.fromEntries([...members, "SessionToken"].map(inXml)));
}

/** @throws KeyServiceError */
function stsUrl(environment: Machine["environment"]): string {
  const region = environment["AWS_REGION"] ?? environment["AWS_DEFAULT_REGION"];
  const usual = `https://sts.${region ? `${region}.` : ""}${awsDomain(region)}/`;
  const url = environment["AWS_ENDPOINT_URL_STS"] ?? usual;
  if (isSafeToFetch(url)) return url;
  throw new KeyServiceError("cannot be asked: AWS_ENDPOINT_URL_STS must be an https URL");
}

/** ECS, and EKS Pod Identity, whose token is in a file. */
async function ofContainer(machine: Machine, url: string): Promise<Credential> {
  const {
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
    AWS_CONTAINER_AUTHORIZATION_TOKEN: given = "",
  } = machine.environment;
  const token = file ? await readTokenFile(file) : given;
  const headers = token === "" ? {} : { authorization: token };
  return keysIn((await askMetadata("the container's endpoint", machine, url, { headers })).members);
}

/** IMDSv2: a token first, without which no stranger's request reaches the keys through a proxy. */
async function ofInstance(machine: Machine): Promise<Credential> {
  const { AWS_EC2_METADATA_SERVICE_ENDPOINT: given = "http://169.254.169.254" } =
    machine.environment;
  const askInstance = (path: string, method: string, headers: Readonly<Record<string, string>>) =>
    askMetadata(
      "there is no KEY_CREDENTIAL_AWSKMS, and the metadata service of EC2",
      machine,
      `${given.replace(/\/$/, "")}/latest/${path}`,
      { method, headers },
    );
  const seconds = { "x-aws-ec2-metadata-token-ttl-seconds": "21600" };
  const { text } = await askInstance("api/token", "PUT", seconds);
  const headers = { "x-aws-ec2-metadata-token": text.trim() };
  const roles = "meta-data/iam/security-credentials/";
  const [role = ""] = (await askInstance(roles, "GET", headers)).text.trim().split("\n");
  return keysIn((await askInstance(roles + encodeURIComponent(role), "GET", headers)).members);
}

const members = ["Expiration", "AccessKeyId", "SecretAccessKey"];

/** @throws KeyServiceError for an answer without its parts. */
function keysIn(answer: Members): Credential {
  const keys = members.map((name) => [name, textOf(answer, name)]);
  const SessionToken = answer["SessionToken"] ?? textOf(answer, "Token");
  return { ...Object.fromEntries(keys), SessionToken };
}
