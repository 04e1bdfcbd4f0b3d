import { basename } from "node:path";
import { expect, test } from "vitest";
import { DistributeConfiguration } from "../../src/node/distribute/distribute.ts";
import { gateway } from "../../src/node/gateway/gateway.ts";
import { ServeConfiguration } from "../../src/node/serve/serve-configuration.ts";
import { signer } from "../../src/node/signer/signer.ts";
import { cellsOf, filesAt, read } from "./page-files.ts";

const page = read("docs/reference/environment.md");
const rows = page
  .slice(page.indexOf("## Files"))
  .split("\n")
  .filter((line) => line.startsWith("| ") && !/^\| (?:file|---)/.test(line))
  .map(cellsOf);

const credentials = "node/key-service/machine-credentials: by the token that its file has then";
const ofCall =
  "agent/identity/certificate-client: reads the token and the roots anew for each call";
const ofRequest = "node/files/credential-file: is read for each request";
const ofApi = "program/http/http-client: the roots of a file count as they are at each request";
const ofTls = "node/tls/tls: is shown, and shown anew after the files change";

/** The test that swaps each file which is read more than once. */
const swaps: Readonly<Record<string, string>> = {
  "the configuration": "program/running-configuration: takes on a changed file once",
  KUBERNETES_CA_FILE: ofApi,
  S3_CA_FILE: ofApi,
  KUBERNETES_TOKEN_FILE: ofRequest,
  S3_CREDENTIALS_FILE: "node/key-service/aws-credential: is read anew each time",
  "CLUSTER_CREDENTIAL_…_FILE": ofRequest,
  "KEY_CREDENTIAL_…_FILE": ofRequest,
  UPSTREAM_CREDENTIAL_FILE: ofRequest,
  AWS_WEB_IDENTITY_TOKEN_FILE: credentials,
  AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: credentials,
  AZURE_FEDERATED_TOKEN_FILE: credentials,
  GOOGLE_APPLICATION_CREDENTIALS: credentials,
  jwt_file: credentials,
  TOKEN_FILE: "node/gateway/upstream: a gateway shows the token that its file has now",
  UPSTREAM_CA_FILE:
    "node/distribute/upstream-bundle: the roots of the file are those that it has now",
  TLS_CERTIFICATE_FILE: ofTls,
  TLS_KEY_FILE: ofTls,
  IMPORT_DIRECTORY: "cli/verbs/import/plugged-in-import: changes nothing, and is told of once",
  CA_ROOT_CA: ofCall,
  RAMPART_TOKEN_FILE: ofCall,
  PROV_CERT: ofCall,
  XDS_ROOT_CA: "agent/xds/xds-proxy: reads the token and the roots anew for each stream",
  RAMPART_FEDERATED_ROOT_CA: "agent/stories/federation: the roots of the endpoint are those",
  "mounted certificates": "agent/secrets/mounted-files: come after the agent has started",
  "file-cert:": "agent/secrets/file-secrets: notify once of a replaced certificate",
  "file-root:": "agent/secrets/file-secrets: of the folder that the kubelet swaps",
  "CRLs in a file": "agent/secrets/agent-secrets: CRLs are looked for at each load",
  RAMPART_WORKLOADS: "agent/node-mode/feeds: follows a file, and keeps the last good list",
};

/** Where a file is opened, and a name of its row; none for what a program itself has written. */
const readers: Readonly<Record<string, string>> = {
  "agent-secrets.ts": "CRLs in a file",
  "aws-credential.ts": "AWS_WEB_IDENTITY_TOKEN_FILE",
  "ca-channel.ts": "CA_ROOT_CA",
  "certificate-cache.ts": "RAMPART_CACHE_KEY_FILE",
  "cloud-credentials.ts": "jwt_file",
  "configuration-file.ts": "the configuration",
  "credential-file.ts": "CLUSTER_CREDENTIAL_…_FILE",
  "envoy-node.ts": "labels of its pod",
  "envoy-options.ts": "ISTIO_BOOTSTRAP_OVERRIDE",
  "file-secrets.ts": "file-cert:",
  "file-watch.ts": "file-root:",
  "followers.ts": "RAMPART_FEDERATED_ROOT_CA",
  "http-client.ts": "KUBERNETES_CA_FILE",
  "log-storage.ts": "",
  "mounted-files.ts": "mounted certificates",
  "node-mode.ts": "RAMPART_WORKLOADS",
  "serve-configuration.ts": "KEY_CREDENTIAL_…_FILE",
  "server-roots.ts": "UPSTREAM_CA_FILE",
  "system-roots.ts": "SSL_CERT_FILE",
  "telemetry.ts": "OTEL_EXPORTER_OTLP_CERTIFICATE",
  "tls.ts": "TLS_CERTIFICATE_FILE",
  "token.ts": "RAMPART_TOKEN_FILE",
  "upstream.ts": "`TOKEN_FILE",
};
const opensFile =
  /(?<!function )\b(?:PemFile\.(?:read|readNow|readRoots)|SmallFile\.read|TokenFile\.(?:read|readIfAny)|readFile|readFileSync)\(/;

test("docs/reference/environment.md says of every file that a configuration names when it is read", () => {
  const named = rows.map(([file]) => file).join();
  const keys = [
    ...ServeConfiguration.keys,
    ...gateway.keys,
    ...DistributeConfiguration.keys,
    ...signer.keys,
  ];
  const files = new Set(keys.filter((key) => /_FILE$|^IMPORT_DIRECTORY$/.test(key)));
  expect([...files].filter((key) => !named.includes(`\`${key}\``))).toEqual([]);
  const opening = filesAt("src/{agent,config,delivery,kubernetes,node,program}/**/*.ts")
    .filter((file) => !file.startsWith("src/program/files/") && opensFile.test(read(file)))
    .map((file) => basename(file));
  expect(opening.toSorted()).toEqual(Object.keys(readers));
  for (const name of Object.values(readers)) expect(named).toContain(name);
});

test("a test swaps each file that is read more than once", () => {
  const swapped = rows.flatMap(([file = "", when = ""]) => (when.startsWith("once") ? [] : [file]));
  const names = swapped.join().match(/(?<=`)(?:[A-Z…_0-9]{4,}|file-[a-z]+:|jwt_file)(?=`)/g);
  const inWords = Object.keys(swaps).filter((name) => /^[a-z]+ |CRLs/.test(name));
  expect(new Set([...(names ?? []), ...inWords])).toEqual(new Set(Object.keys(swaps)));
  for (const name of inWords) expect(swapped.join()).toContain(name);
  for (const [name, swap] of Object.entries(swaps)) {
    const [file, title = ""] = swap.split(": ");
    expect(read(`test/${file}.test.ts`), name).toContain(title);
  }
});
