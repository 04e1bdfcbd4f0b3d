import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { WrappedKek } from "../../../src/custody/key-service/kek-lease.ts";
import { wrapKek } from "../../../src/custody/key-service/operators-keys.ts";
import { awsKeysOf } from "../../../src/node/key-service/aws-credential.ts";
import { metadataUrl } from "../../../src/node/key-service/cloud-credentials.ts";
import { nodeKeyCustody } from "../../../src/node/key-service/key-custody.ts";
import { awsCredential, awsKeyId, playAws } from "../../testkit/key-services/aws-kms.ts";
import {
  azureCredential,
  azureUri,
  playAzure,
} from "../../testkit/key-services/azure-key-vault.ts";
import { googleUri, playGoogle } from "../../testkit/key-services/google-kms.ts";
import { playVault, vaultToken, vaultUri } from "../../testkit/key-services/vault-transit.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const octets = crypto.getRandomValues(new Uint8Array(32));

/** A request for a part of a credential: all that it must have, and its answer. */
interface Asked {
  /** The method and the path with its query. */
  readonly at: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The fields of a form, or the members of JSON. */
  readonly body?: object;
  readonly answer: string | object;
  readonly status?: number;
}

/** Where a credential is looked for, and what is asked until it is found. */
interface Row {
  readonly environment: Readonly<Record<string, string>>;
  /** The text of the configuration. */
  readonly given?: string;
  readonly asked: readonly Asked[];
}

const [accessKeyId = "", secretAccessKey = ""] = awsCredential.split(":");
const awsKeys = (Expiration = "IN AN HOUR") => ({
  Code: "Success",
  AccessKeyId: accessKeyId,
  SecretAccessKey: secretAccessKey,
  Token: "session/of+the+test==",
  Expiration,
});
const stsAnswer = ({ AccessKeyId, SecretAccessKey, Token, Expiration } = awsKeys()) =>
  `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
  <AccessKeyId>${AccessKeyId}</AccessKeyId><SecretAccessKey>${SecretAccessKey}</SecretAccessKey>
  <SessionToken>${Token}</SessionToken><Expiration>${Expiration}</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`;

const role = "arn:aws:iam::111122223333:role/ca";
const irsa: Row = {
  environment: {
    AWS_WEB_IDENTITY_TOKEN_FILE: "FILE",
    AWS_ROLE_ARN: role,
    AWS_ENDPOINT_URL_STS: "ORIGIN/sts",
  },
  asked: [
    {
      at: "POST /sts",
      body: {
        Action: "AssumeRoleWithWebIdentity",
        Version: "2011-06-15",
        RoleArn: role,
        RoleSessionName: "rampart",
        WebIdentityToken: "jwt.of.workload",
      },
      answer: stsAnswer(),
    },
  ],
};
const roles = "/latest/meta-data/iam/security-credentials/";
const imds: Row = {
  environment: { AWS_EC2_METADATA_SERVICE_ENDPOINT: "ORIGIN/" },
  asked: [
    {
      at: "PUT /latest/api/token",
      headers: { "x-aws-ec2-metadata-token-ttl-seconds": "21600" },
      answer: "imds-token==",
    },
    { at: `GET ${roles}`, headers: { "x-aws-ec2-metadata-token": "imds-token==" }, answer: "ca" },
    {
      at: `GET ${roles}ca`,
      headers: { "x-aws-ec2-metadata-token": "imds-token==" },
      answer: awsKeys(),
    },
  ],
};
const container = (authorization: object): Row => ({
  environment: { AWS_CONTAINER_CREDENTIALS_FULL_URI: "ORIGIN/v1/credentials", ...authorization },
  asked: [
    {
      at: "GET /v1/credentials",
      headers: { authorization: "jwt.of.workload" },
      answer: awsKeys(),
    },
  ],
});
const awsRows: Readonly<Record<string, Row>> = {
  "keys in variables": {
    environment: { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
    asked: [],
  },
  "web identity": irsa,
  "a pod identity of EKS": container({ AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: "FILE" }),
  "the endpoint of a container": container({
    AWS_CONTAINER_AUTHORIZATION_TOKEN: "jwt.of.workload",
  }),
  "the instance": imds,
};

const changed = ({ environment, asked }: Row, change: Partial<Asked>): Row => ({
  environment,
  asked: asked.map((each, i) => (i === asked.length - 1 ? { ...each, ...change } : each)),
});

const cloudkms = "https://www.googleapis.com/auth/cloudkms";
const externalAccount = (more: object = {}) =>
  JSON.stringify({
    type: "external_account",
    audience:
      "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/k",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    token_url: "ORIGIN/v1/token",
    credential_source: { file: "FILE" },
    ...more,
  });
const exchange = (scope: string, token: string): Asked => ({
  at: "POST /v1/token",
  body: {
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    audience:
      "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/k",
    requested_token_type: "urn:ietf:params:oauth:token-type:access_token",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    subject_token: "jwt.of.workload",
    scope,
  },
  answer: { access_token: token, expires_in: 3600, token_type: "Bearer" },
});
const googleRows: Readonly<Record<string, Row>> = {
  "the metadata server": {
    environment: { GCE_METADATA_HOST: "HOST" },
    asked: [
      {
        at: `GET /computeMetadata/v1/instance/service-accounts/default/token?scopes=${cloudkms}`,
        headers: { "metadata-flavor": "Google" },
        answer: { access_token: "ya29.token", expires_in: 3599 },
      },
    ],
  },
  "a federated token": {
    environment: {},
    given: externalAccount(),
    asked: [exchange(cloudkms, "ya29.token")],
  },
  "a federated token, by application default credentials": {
    environment: { GOOGLE_APPLICATION_CREDENTIALS: "ACCOUNTFILE" },
    asked: [exchange(cloudkms, "ya29.token")],
  },
  "a federated token for a service account": {
    environment: {},
    given: externalAccount({
      credential_source: {
        file: "JSONFILE",
        format: { type: "json", subject_token_field_name: "token" },
      },
      service_account_impersonation_url: "ORIGIN/v1/sa:generateAccessToken",
    }),
    asked: [
      exchange("https://www.googleapis.com/auth/cloud-platform", "federated"),
      {
        at: "POST /v1/sa:generateAccessToken",
        headers: { authorization: "Bearer federated" },
        body: { scope: [cloudkms], lifetime: "3600s" },
        answer: { accessToken: "ya29.token", expireTime: "IN AN HOUR" },
      },
    ],
  },
};

const { appId, tenant, password } = JSON.parse(azureCredential);
const azureVariables = {
  AZURE_CLIENT_ID: appId,
  AZURE_TENANT_ID: tenant,
  AZURE_AUTHORITY_HOST: "ORIGIN/",
};
const azureGrant = (proof: object): Asked => ({
  at: `POST /${tenant}/oauth2/v2.0/token`,
  body: {
    grant_type: "client_credentials",
    client_id: appId,
    ...proof,
    scope: "https://vault.azure.net/.default",
  },
  answer: { access_token: "eyJ.token", expires_in: 3599, token_type: "Bearer" },
});
const azureRows: Readonly<Record<string, Row>> = {
  "a client secret": {
    environment: { ...azureVariables, AZURE_CLIENT_SECRET: password },
    asked: [azureGrant({ client_secret: password })],
  },
  "a federated token": {
    environment: { ...azureVariables, AZURE_FEDERATED_TOKEN_FILE: "FILE" },
    asked: [
      azureGrant({
        client_assertion: "jwt.of.workload",
        client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      }),
    ],
  },
  "the identity of a machine": {
    environment: { AZURE_POD_IDENTITY_AUTHORITY_HOST: "ORIGIN", AZURE_CLIENT_ID: appId },
    asked: [
      {
        at: `GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fvault.azure.net&client_id=${appId}`,
        headers: { metadata: "true" },
        answer: { access_token: "eyJ.token", expires_in: "3599", token_type: "Bearer" },
      },
    ],
  },
  "the identity of a container app": {
    environment: { IDENTITY_ENDPOINT: "ORIGIN/msi/token", IDENTITY_HEADER: "header-of-the-app" },
    asked: [
      {
        at: "GET /msi/token?api-version=2019-08-01&resource=https%3A%2F%2Fvault.azure.net",
        headers: { "x-identity-header": "header-of-the-app" },
        answer: { access_token: "eyJ.token", expires_on: "SECONDS OF THAT" },
      },
    ],
  },
};

const login = (mount: string): Asked => ({
  at: `POST /v1/auth/${mount}/login`,
  headers: { "x-vault-request": "true" },
  body: { role: "ca", jwt: "jwt.of.workload" },
  answer: { auth: { client_token: vaultToken, lease_duration: 3600 } },
});
const vaultRows: Readonly<Record<string, Row>> = {
  "a token": { environment: { VAULT_TOKEN: vaultToken }, asked: [] },
  "a login of Kubernetes": {
    environment: {},
    given: '{"role":"ca","jwt_file":"FILE"}',
    asked: [login("kubernetes")],
  },
  "a login by JWT": {
    environment: {},
    given: '{"auth":"auth/jwt/login","role":"ca","jwt_file":"FILE"}',
    asked: [login("jwt")],
  },
};

const clouds = {
  AWSKMS: {
    play: () => playAws(),
    origin: "https://kms.eu-central-1.amazonaws.com",
    uri: (host: string) => `awskms://${host}/${awsKeyId}`,
  },
  GCPKMS: {
    play: playGoogle,
    origin: "https://cloudkms.googleapis.com",
    uri: (host: string) => googleUri.replace("projects", `${host}/projects`),
  },
  AZUREKMS: {
    play: playAzure,
    origin: "https://mesh.vault.azure.net",
    uri: (host: string) => azureUri.replace("mesh.vault.azure.net", host),
  },
  HASHIVAULT: {
    play: () => playVault(),
    origin: "https://vault.test",
    uri: (host: string) => vaultUri.replace("vault.test", host),
  },
};
type Cloud = keyof typeof clouds;

/** A cloud behind a port: its key service, and whoever gives credentials for it. */
async function start(cloud: Cloud, { environment, given, asked }: Row) {
  const { play, origin, uri } = clouds[cloud];
  const service = await play();
  let time = new Date("2026-11-24T12:00:00Z");
  const seen: string[] = [];
  const server = createServer(async (request, response) => {
    const at = `${request.method} ${request.url}`;
    const body = await text(request);
    const door = asked.find((each) => each.at === at);
    if (door) {
      seen.push(at);
      const sent = request.headers["content-type"]?.includes("json")
        ? JSON.parse(body)
        : Object.fromEntries(new URLSearchParams(body));
      expect(request.headers).toMatchObject(door.headers ?? {});
      expect(sent).toEqual(door.body ?? {});
      const { answer, status = 200 } = door;
      response.writeHead(status, status === 307 ? { location: "/elsewhere" } : {});
      const end = new Date(time.getTime() + 3_600_000);
      const said = typeof answer === "string" ? answer : JSON.stringify(answer);
      response.end(
        said
          .replace("IN AN HOUR", end.toISOString())
          .replace("SECONDS OF THAT", `${end.getTime() / 1000}`),
      );
      return;
    }
    const host = cloud === "AWSKMS" ? `http://${request.headers.host}` : origin;
    const answer = await service.fetch(`${host}${request.url}`, {
      method: request.method ?? "",
      headers: request.headers as Record<string, string>,
      body: body === "" ? null : body,
    });
    response.writeHead(answer.status).end(await answer.text());
  });
  const { host, close } = await listenOnLoopback(server);
  onTestFinished(close);
  // A key of Azure answers by its own name, and stands behind another one here.
  service.forge = (answer) =>
    "kid" in answer
      ? { ...answer, kid: `${answer["kid"]}`.replace(origin, `http://${host}`) }
      : answer;
  const folder = await temporaryFolder();
  const file = join(folder, "token");
  await writeFile(file, "jwt.of.workload\n");
  await writeFile(`${file}.json`, '{"token":"jwt.of.workload"}');
  const here = (value: string): string =>
    value
      .replaceAll("ORIGIN", `http://${host}`)
      .replace("HOST", host)
      .replace("JSONFILE", `${file}.json`)
      .replace("ACCOUNTFILE", `${file}.account`)
      .replace("FILE", file);
  await writeFile(`${file}.account`, here(externalAccount()));
  const values = Object.entries(environment).map(([name, value]) => [name, here(value)]);
  const texts =
    given === undefined ? [] : [[`KEY_CREDENTIAL_${cloud}`, () => here(given)] as const];
  const { keyServices } = nodeKeyCustody(
    { clusterCredentials: new Map(texts) },
    Object.fromEntries(values),
    () => time,
  );
  const wrap = () => wrapKek({ id: "k1", octets }, uri(host), "mesh.test", keyServices);
  const keys = awsKeysOf(Object.fromEntries(values));
  return {
    seen,
    service,
    wrap,
    file,
    keysOfBucket: async () => keys?.(time),
    open: async () => WrappedKek.open(await wrap(), "mesh.test", keyServices),
    pass: (seconds: number) => {
      time = new Date(time.getTime() + 1000 * seconds);
    },
  };
}

const rowsOf = (cloud: Cloud, rows: Readonly<Record<string, Row>>) =>
  Object.entries(rows).map(([what, row]) => [cloud, what, row] as const);

test.each([
  ...rowsOf("AWSKMS", awsRows),
  ...rowsOf("GCPKMS", googleRows),
  ...rowsOf("AZUREKMS", azureRows),
  ...rowsOf("HASHIVAULT", vaultRows),
])(
  "%s opens a KEK by %s, which is asked for again before it ends, by the token that its file has then",
  async (cloud, _, row) => {
    const asked = [...row.asked];
    const { open, file, seen, pass } = await start(cloud, { ...row, asked });
    expect(await open()).toEqual(octets);
    const once = row.asked.map(({ at }) => at);
    expect(seen).toEqual(once);
    await open();
    expect(seen).toEqual(once);
    await writeFile(file, "jwt.of.later");
    await writeFile(`${file}.json`, '{"token":"jwt.of.later"}');
    const isInFile = JSON.stringify(row).includes("FILE");
    const token = isInFile ? "jwt.of.later" : "jwt.of.workload";
    const later = JSON.stringify(row.asked).replaceAll("jwt.of.workload", token);
    asked.splice(0, asked.length, ...JSON.parse(later));
    pass(3560);
    await open();
    expect(seen).toEqual([...once, ...once]);
  },
);

test.each(Object.entries(awsRows))(
  "a bucket's requests share the credential in %s, which is asked for again before it ends",
  async (_, row) => {
    const { keysOfBucket, seen, pass } = await start("AWSKMS", row);
    const sessionToken = row.asked.length > 0 ? "session/of+the+test==" : undefined;
    const all = await Promise.all(Array.from({ length: 5 }, keysOfBucket));
    expect(new Set(all.map((each) => JSON.stringify(each))).size).toBe(1);
    expect(all[0]).toEqual({ accessKeyId, secretAccessKey, sessionToken });
    const once = row.asked.map(({ at }) => at);
    expect(seen).toEqual(once);
    pass(3560);
    await keysOfBucket();
    expect(seen).toEqual([...once, ...once]);
  },
);

test("a bucket is sent no key that no header takes, and no sentence has it", async () => {
  const answer = { ...awsKeys(), SecretAccessKey: "secret~\u00e9" };
  const { keysOfBucket } = await start("AWSKMS", changed(imds, { answer }));
  const said = await keysOfBucket().then(() => "it worked", String);
  expect(said).toContain("its credential has characters that no header takes");
  expect(said).not.toContain("secret~");
});

/** A machine where nobody is asked. */
const silent = (environment: Row["environment"], given?: string): Row => ({
  environment,
  asked: [],
  ...(given !== undefined && { given }),
});

test.each<[Cloud, string, Row, string]>([
  [
    "AWSKMS",
    "none at all",
    silent({ AWS_EC2_METADATA_DISABLED: "true" }),
    "cannot be asked: KEY_CREDENTIAL_AWSKMS is required",
  ],
  [
    "AWSKMS",
    "no metadata service",
    silent({ AWS_EC2_METADATA_SERVICE_ENDPOINT: "http://127.0.0.1:1" }),
    "cannot be asked: there is no KEY_CREDENTIAL_AWSKMS, and the metadata service of EC2 did not answer",
  ],
  [
    "AWSKMS",
    "a metadata service elsewhere",
    silent({ AWS_EC2_METADATA_SERVICE_ENDPOINT: "http://10.0.0.1" }),
    "its metadata service is neither on this machine nor at its link-local address",
  ],
  ["AWSKMS", "a redirect", changed(imds, { status: 307 }), "redirects elsewhere (status 307)"],
  [
    "AWSKMS",
    "an endless answer",
    changed(imds, { answer: "x".repeat(70_000) }),
    "answered too much",
  ],
  ["AWSKMS", "no JSON", changed(imds, { answer: "<html>" }), "answered without Expiration"],
  [
    "AWSKMS",
    "keys that have ended",
    changed(imds, { answer: awsKeys("2026-11-24T11:59:59Z") }),
    "its credential has expired",
  ],
  [
    "AWSKMS",
    "a token that has ended",
    changed(irsa, { status: 400, answer: "<Code>ExpiredTokenException</Code>" }),
    "STS of AWS refuses the credential, which has expired (status 400)",
  ],
  [
    "AWSKMS",
    "a token of two lines",
    { ...container({ AWS_CONTAINER_AUTHORIZATION_TOKEN: "jwt.of.workload\nx: y" }), asked: [] },
    "the container's endpoint takes a credential of one line of visible ASCII alone",
  ],
  [
    "AWSKMS",
    "an STS without TLS",
    { ...irsa, environment: { ...irsa.environment, AWS_ENDPOINT_URL_STS: "http://sts.test" } },
    "AWS_ENDPOINT_URL_STS must be an https URL",
  ],
  [
    "HASHIVAULT",
    "a token without octets",
    silent({ VAULT_TOKEN: "" }),
    "cannot be asked: KEY_CREDENTIAL_HASHIVAULT is required",
  ],
  [
    "AWSKMS",
    "a role that is missing",
    silent({ AWS_WEB_IDENTITY_TOKEN_FILE: "FILE" }),
    "AWS_ROLE_ARN is required beside AWS_WEB_IDENTITY_TOKEN_FILE",
  ],
  [
    "AWSKMS",
    "a file that is missing",
    silent({ AWS_WEB_IDENTITY_TOKEN_FILE: "/nowhere/token", AWS_ROLE_ARN: role }),
    "cannot be asked: /nowhere/token does not exist",
  ],
  [
    "GCPKMS",
    "another source of a federated token",
    silent({}, externalAccount({ credential_source: { url: "http://10.0.0.1" } })),
    "must have a file as its source",
  ],
  [
    "GCPKMS",
    "a URL without TLS",
    silent({}, externalAccount({ token_url: "http://sts.test/" })),
    "must have a file as its source, and https URLs",
  ],
  [
    "AZUREKMS",
    "a secret that has expired",
    {
      environment: { ...azureVariables, AZURE_CLIENT_SECRET: password },
      asked: [
        {
          ...azureGrant({ client_secret: password }),
          status: 401,
          answer: {
            error: "invalid_client",
            error_description: "AADSTS7000222: The provided client secret keys are expired.",
          },
        },
      ],
    },
    "refuses the credential, which has expired (status 401)",
  ],
  [
    "HASHIVAULT",
    "a login that is refused",
    {
      environment: {},
      given: '{"role":"ca","jwt_file":"FILE"}',
      asked: [{ ...login("kubernetes"), status: 403, answer: { errors: ["permission denied"] } }],
    },
    "refuses the credential, which is wrong or has expired (status 403, at auth/kubernetes/login)",
  ],
])("%s says of %s: what it means, without a secret", async (cloud, _, row, sentence) => {
  const { wrap } = await start(cloud, row);
  const said = await wrap().then(() => "it worked", String);
  expect(said).toContain(sentence);
  expect(said).not.toMatch(/jwt\.of|session\/|hvs\.|secret~|imds-token/);
});

test.each([
  "http://169.254.169.254/latest",
  "http://169.254.170.2/v2/credentials/x",
  "http://[fd00:ec2::23]/v1/credentials",
  "http://metadata.google.internal/computeMetadata",
  "http://localhost:8081/msi/token",
  "https://credentials.test/",
])("%s may be a metadata service", (url) => {
  expect(metadataUrl(url)).toBe(url);
});

test.each([
  "http://169.254.170.2@elsewhere.test/",
  "http://169.254.169.254.nip.test/",
  "http://metadata.google.internal.test/",
  "http://[fd00:ec2::25]/",
  "ftp://169.254.169.254/",
  "nothing",
])("%s is no metadata service", (url) => {
  expect(() => metadataUrl(url)).toThrow("its metadata service is neither on this machine");
});
