import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type DevelopmentCluster, startDevelopmentCluster } from "../../../dev/cluster/cluster.ts";
import { blocksOf, inCluster, staysOpen } from "../../pages/shell-blocks.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { awsCredential, playAws } from "../../testkit/key-services/aws-kms.ts";
import { startService } from "../../testkit/key-services/key-service.ts";
import { runWell } from "../../testkit/programs/child-process.ts";
import { envoyOf, pythonWithEnvoy } from "../envoy.ts";
import { fromGoProxy, required } from "../software.ts";
import { onMachine, standIn, standInWrangler } from "./stand-ins.ts";
import { openTerminal, type Terminal } from "./terminal.ts";

const root = join(import.meta.dirname, "../../..");

/** Where a page begins: its reader's terminal, with all that the page takes for granted. */
export type Scene = (folder: string, ends: AsyncDisposableStack) => Promise<Terminal>;

const { HTTP_PROXY = "", HTTPS_PROXY = "" } = process.env;

/** `rampart doctor` as on a Node with the last security releases, which npm lacks: it warns of this one alone. */
const doctorOfAPatchedNode = (program: string): string => `#!/bin/sh
"${process.execPath}" "${program}" "$@" > "$HOME/doctor.out"
code=$?
cat "$HOME/doctor.out"
[ $code != 3 ] || [ "$(grep '^WARNING' "$HOME/doctor.out")" != "WARNING  node-version" ] || exit 0
exit $code
`;

/** A PATH with this Node, `rampart` as an installation puts it there, and the machine's programs. */
export async function environmentIn(folder: string): Promise<Record<string, string>> {
  const file = join(folder, ".home/bin/rampart");
  await mkdir(dirname(file), { recursive: true });
  const program = join(root, "src/cli/main.ts");
  const lines = [`case "$1 $2" in "serve --unit") ;; serve*) echo $$ > "$HOME/serve.pid" ;; esac`];
  lines.push(`[ "$1" != doctor ] || exec "$HOME/doctor" "$@"`);
  lines.push(`exec "${process.execPath}" "${program}" "$@"`);
  await writeFile(file, ["#!/bin/sh", ...lines, ""].join("\n"), { mode: 0o755 });
  const home = join(folder, ".home");
  await writeFile(join(home, "doctor"), doctorOfAPatchedNode(program), { mode: 0o755 });
  return {
    ...process.env,
    PATH: `${dirname(file)}:${home}/npm/bin:${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
    HOME: home,
    npm_config_prefix: join(home, "npm"),
    npm_config_cache: execFileSync("npm", ["config", "get", "cache"], { encoding: "utf8" }).trim(),
    WRANGLER_SEND_METRICS: "false",
    CLOUDFLARE_CF_FETCH_ENABLED: "false",
    NO_COLOR: "1",
    HTTP_PROXY,
    HTTPS_PROXY,
  };
}

async function terminalIn(
  folder: string,
  ends: AsyncDisposableStack,
  variables: Readonly<Record<string, string>> = {},
): Promise<Terminal> {
  const terminal = await openTerminal(folder, { ...(await environmentIn(folder)), ...variables });
  ends.defer(() => terminal.end());
  return terminal;
}

/** A folder with a token of a workload in `TOKEN`, and nothing else. */
export const emptyFolder: Scene = (folder, ends) =>
  terminalIn(folder, ends, { TOKEN: "eyJhbGciOiJub25lIn0.e30." });

/** What git has of this repository, as a clone would. */
function cloneInto(folder: string): void {
  const files = execFileSync("git", ["ls-files", "-z"], { cwd: root });
  const archive = execFileSync("tar", ["--null", "--files-from=-", "-c"], {
    cwd: root,
    input: files,
    maxBuffer: 2 ** 28,
  });
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
}

/** A fresh clone, before `npm ci`. */
export const clone: Scene = (folder, ends) => {
  cloneInto(folder);
  return terminalIn(folder, ends);
};

/** A checkout after `npm ci`. */
export const checkout: Scene = async (folder, ends) => {
  cloneInto(folder);
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  return terminalIn(folder, ends);
};

/** The same with `npm start` in another terminal. */
export const development: Scene = async (folder, ends) => {
  const terminal = await checkout(folder, ends);
  await terminal.leaveOpen("npm start", /Ctrl-C ends everything/);
  return terminal;
};

/** The same with an Envoy, and the reader in an empty folder. */
export const withEnvoy: Scene = async (folder, ends) => {
  const python = await required(pythonWithEnvoy());
  const repository = join(folder, "repository");
  await mkdir(repository);
  await development(repository, ends);
  const terminal = await terminalIn(folder, ends);
  await symlink(await envoyOf(python), join(folder, ".home/bin/envoy"));
  return terminal;
};

/** The same with grpcurl. The reader goes on once the CA in the background serves. */
export const withGrpcurl: Scene = async (folder, ends) => {
  const module = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4";
  const grpcurl = await required(fromGoProxy(module));
  const terminal = await development(folder, ends);
  await symlink(grpcurl, join(folder, ".home/bin/grpcurl"));
  const serves = "until curl -sko /dev/null https://127.0.0.1:15012/healthz; do sleep 0.2; done";
  const type = (text: string): Promise<string> =>
    terminal.type(
      text.replace("/tmp/rampart", join(folder, "store")).replace(/serve &.*\n/, `$&${serves}\n`),
    );
  return { ...terminal, type };
};

/** A folder with the archive that `npm pack` makes. */
export const archive: Scene = async (folder, ends) => {
  const values = ["pack", "--pack-destination", folder];
  await runWell("npm", values, { folder: root, timeoutSeconds: 300 });
  return terminalIn(folder, ends);
};

/** The values that the tutorial has its reader write into `wrangler.toml`. */
const edits = `sed -i 's|^# id = .*|id = "fedcba9876543210fedcba9876543210"|
s|^# routes = .*|routes = [{ pattern = "ca.mesh.test", custom_domain = true }]|
s|^# INCEPTION_DATE = .*|INCEPTION_DATE = "${new Date().toISOString().slice(0, 10)}"|
s|^issuer = .*|issuer = "https://oidc.eks.eu-central-1.amazonaws.com/id/5D2C7B1A9F"|' wrangler.toml
`;

/** The same for a reader whose wrangler has no account: it bundles what it would deploy. */
export const archiveWithAccount: Scene = async (folder, ends) => {
  const terminal = await archive(folder, ends);
  await standIn(folder, "npx");
  const type = async (text: string): Promise<string> => {
    if (text.includes("npm run check")) await terminal.type(edits);
    if (text.includes("npm run deploy")) await standInWrangler(join(folder, "my-ca"));
    return terminal.type(text);
  };
  return { ...terminal, type };
};

async function developmentCluster(
  folder: string,
  ends: AsyncDisposableStack,
  port = 0,
): Promise<DevelopmentCluster> {
  const cluster = await startDevelopmentCluster({ port, folder: join(folder, ".home") });
  ends.defer(() => cluster.close());
  return cluster;
}

/** A terminal of root on a machine, of which `machine` in the folder has the paths. */
async function rootTerminalIn(folder: string, ends: AsyncDisposableStack): Promise<Terminal> {
  const place = join(folder, "machine");
  for (const each of ["etc/systemd/system", "usr/local/bin", "var/lib"])
    await mkdir(join(place, each), { recursive: true });
  await standIn(folder, "sudo", "editor", "systemctl", "journalctl");
  const { PATH } = await environmentIn(folder);
  const terminal = await terminalIn(folder, ends, {
    MACHINE: place,
    EDITOR: "editor",
    PATH: `${place}/usr/local/bin:${PATH}`,
  });
  return { ...terminal, type: (text) => terminal.type(onMachine(text, place)) };
}

/** A machine on which the development cluster can be reached, and nothing is configured yet. */
export const machine: Scene = async (folder, ends) => {
  await developmentCluster(folder, ends, 8788);
  return rootTerminalIn(folder, ends);
};

/** A checkout after `npm ci` on a machine of the reader's. */
export const checkoutOfRoot: Scene = async (folder, ends) => {
  await checkout(folder, ends);
  return rootTerminalIn(folder, ends);
};

/** The same with an engine for images. */
export const checkoutWithEngine: Scene = async (folder, ends) => {
  await standIn(folder, "docker");
  return checkout(folder, ends);
};

/** The machine on which the tutorial for systemd has ended. */
export const service: Scene = async (folder, ends) => {
  const terminal = await machine(folder, ends);
  for (const { text, mark, language } of blocksOf("docs/tutorials/serve-on-systemd.md")) {
    if (language !== "sh" || mark === inCluster) continue;
    if (mark === staysOpen) await terminal.leaveOpen(text, /"gRPC on /);
    else await terminal.type(text);
  }
  return terminal;
};

/** An operator with two keys in AWS's key service. */
export const keyOperator: Scene = async (folder, ends) => {
  const { host, close } = await startService(await playAws());
  ends.defer(close);
  const [id, secret] = awsCredential.split(":");
  const terminal = await operatorIn(folder, ends, "", {
    AWS_ACCESS_KEY_ID: id ?? "",
    AWS_SECRET_ACCESS_KEY: secret ?? "",
  });
  // The page's second key is the service's first that signs.
  const type = (text: string): Promise<string> =>
    terminal.type(
      text.replaceAll("awskms:///", `awskms://${host}/`).replace(":key/5678abcd", ":key/00000001"),
    );
  return { ...terminal, type };
};

/** An operator in the folder of a `rampart.toml`, with the KEK in the environment. */
async function operatorIn(
  folder: string,
  ends: AsyncDisposableStack,
  keys: string,
  variables: Readonly<Record<string, string>> = {},
  ofIssuer = "",
): Promise<Terminal> {
  const { issuer } = await developmentCluster(folder, ends);
  const toml = `STORE_DIRECTORY = "store"
LISTEN = "127.0.0.1:15012"
MONITORING_LISTEN = "127.0.0.1:15014"
PROPAGATION_INTERVAL = "1s"
${keys}
[[ISSUERS]]
issuer = "${issuer}"
${ofIssuer}
`;
  await writeFile(join(folder, "rampart.toml"), toml);
  return terminalIn(folder, ends, {
    KEK: randomKek(),
    CA: "http://127.0.0.1:15014",
    ISSUER: issuer,
    ...variables,
  });
}

const today = new Date().toISOString().slice(0, 10);

/** An operator beside a `rampart serve` that signs. */
export const operator: Scene = async (folder, ends) => {
  const terminal = await operatorIn(folder, ends, `INCEPTION_DATE = ${today}`);
  await standIn(folder, "npx");
  await writeFile(join(folder, ".home/rampart-kek"), randomKek());
  await writeFile(
    join(folder, "package.json"),
    '{ "scripts": { "deploy": "npx wrangler deploy" } }',
  );
  await terminal.leaveOpen("rampart serve", /"gRPC on /);
  return terminal;
};

/** A certificate in `leaf.pem`, which is in the published log. */
const firstLeaf = `curl -sSf $CA/bundle.pem > roots.pem
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -subj / -out csr.pem
TOKEN="$(curl -sSf "$ISSUER/token?namespace=shop&serviceaccount=cart")"
curl -sSf --cacert roots.pem --resolve istiod.istio-system.svc:15012:127.0.0.1 \\
  https://istiod.istio-system.svc:15012/istio.v1.auth.IstioCertificateService/CreateCertificate \\
  -H 'content-type: application/json' -H "authorization: Bearer $TOKEN" \\
  -d "$(jq -n --rawfile csr csr.pem '{csr: $csr}')" | jq -r '.certChain[0]' > leaf.pem
until rampart log verify leaf.pem --url $LOG; do sleep 1; done`;

/** An operator beside a `rampart serve` that has CRLs and an issuance log, with a certificate of it. */
export const loggedOperator: Scene = async (folder, ends) => {
  const keys = `INCEPTION_DATE = ${today}
CRL = "on"
LOG_ORIGIN = "log.example.com/2026"
LOG_INTERVAL = "1s"`;
  const reader = randomBytes(24).toString("hex");
  const terminal = await operatorIn(folder, ends, keys, {
    LOG_READERS: reader,
    RAMPART_LOG_TOKEN: reader,
    LOG: "http://127.0.0.1:15014/log/0",
  });
  await terminal.leaveOpen("rampart serve", /"gRPC on /);
  await terminal.type(firstLeaf);
  return terminal;
};

/** An operator beside one CA, which stands for those of two trust domains. */
export const twoDomains: Scene = async (folder, ends) => {
  const terminal = await operator(folder, ends);
  await terminal.type('export CA_ONE="$CA" CA_TWO="$CA" TOKEN=eyJhbGciOiJub25lIn0.e30.');
  return terminal;
};

/** An operator with the roots of two istiods, which both name their root as Istio does. */
export const twoRoots: Scene = async (folder, ends) => {
  const terminal = await operator(folder, ends);
  await terminal.type(`for name in east west; do
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -keyout "$name.key" -out "$name.pem" \\
    -subj /O=cluster.local -addext keyUsage=critical,keyCertSign,cRLSign
done`);
  return terminal;
};

/** An operator beside a log, with a rule in `new.toml`. */
export const ruledOperator: Scene = async (folder, ends) => {
  const terminal = await loggedOperator(folder, ends);
  const [rule = ""] = blocksOf("docs/how-to/policy.md").map(({ text }) => text);
  const live = rule.replace("shadow = true\n", "");
  await writeFile(join(folder, "rule.toml"), live);
  await terminal.type("cat rampart.toml rule.toml > new.toml");
  return terminal;
};

/** An operator beside a `rampart serve` that signs tokens, with the credential of a workload and the id of the key. */
export const tokenOperator: Scene = async (folder, ends) => {
  const terminal = await operatorIn(
    folder,
    ends,
    `INCEPTION_DATE = ${today}
JWT_ISSUER = "https://ca.example.com"
PLAINTEXT_LISTEN = "127.0.0.1:15010"`,
    { CA: "http://127.0.0.1:15010" },
    'jwt_audiences = ["sts.amazonaws.com"]',
  );
  await terminal.leaveOpen("rampart serve", /"gRPC on /);
  const first = blocksOf("docs/how-to/jwt-svids.md").find(({ language }) => language === "sh");
  await terminal.type(`TOKEN="$(curl -sSf "$ISSUER/token?namespace=shop&serviceaccount=cart")"
until KID="$(curl -sSf $CA/.well-known/jwks.json | jq -re '.keys[0].kid')"; do sleep 1; done
until ${first?.text}do sleep 1; done`);
  return terminal;
};

const secretOfIstiod = `openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -keyout ca-key.pem -out ca-cert.pem \\
  -subj /O=cluster.local -addext "keyUsage=critical,keyCertSign,cRLSign"
cat > ca.yaml <<EOF
apiVersion: v1
kind: Secret
type: istio.io/ca-root
metadata: { name: istio-ca-secret, namespace: istio-system }
data:
  ca-cert.pem: $(base64 -w 0 ca-cert.pem)
  ca-key.pem: $(base64 -w 0 ca-key.pem)
  root-cert.pem: $(base64 -w 0 ca-cert.pem)
EOF
rm ca-key.pem ca-cert.pem`;

/** An operator with the Secret of istiod's CA, beside a `rampart serve` that has no authority. */
export const istiodsMesh: Scene = async (folder, ends) => {
  const terminal = await operatorIn(folder, ends, 'MAX_WORKLOAD_CERT_TTL = "24h"');
  await terminal.leaveOpen("rampart serve", /"monitoring on /);
  await terminal.type(secretOfIstiod);
  return terminal;
};

/** An operator with the same Secret, and the archive that `npm pack` makes. */
export const istiodsMeshAndArchive: Scene = async (folder, ends) => {
  const terminal = await archive(folder, ends);
  await terminal.type(secretOfIstiod);
  return terminal;
};
