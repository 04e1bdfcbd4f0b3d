import { createPrivateKey, type KeyObject, sign as signOctets } from "node:crypto";
import { dirname } from "node:path";
import { Command, Option } from "commander";
import { isSafeToFetch } from "../../../foundation/addresses.ts";
import { build } from "../../../foundation/build.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { StoreOwner } from "../../../node/files/store-owner.ts";
import { AtomicFile } from "../../../program/files/atomic-file.ts";
import { PemFile } from "../../../program/files/pem-file.ts";
import { TokenFile } from "../../../program/files/small-file.ts";
import { NodeFetch } from "../../../program/http/http-client.ts";
import type { DeploymentChoice } from "../../session/deployment.ts";
import {
  addExitCodes,
  addPlaceOptions,
  type ExitName,
  exitCodes,
  typedInterval,
  typedNumber,
  usageError,
} from "../../terminal/command-line.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { callRows, stormRow } from "./call-rows.ts";
import { connectionRows } from "./connection-rows.ts";
import { Deployed, type DeployedParts, platforms } from "./deployed.ts";
import { documentRows } from "./document-rows.ts";
import { reportPage } from "./html.ts";
import { logRows } from "./log-rows.ts";
import { operatorRows } from "./operator-rows.ts";
import { formatReport, type Report } from "./report.ts";
import { playRows, type Row, type Verdict, worstVerdict } from "./row.ts";

interface AcceptanceOptions extends DeploymentChoice {
  readonly yes?: boolean;
  readonly url: string;
  readonly tokenFile: string;
  readonly for: DeployedParts["platform"];
  readonly trustDomain: string;
  readonly ca?: string;
  readonly elsewhere?: string;
  readonly refusedTokenFile?: readonly string[];
  readonly audience: string;
  readonly wait: number;
  readonly calls: number;
  readonly html?: string;
  readonly sign?: string;
  readonly json?: true;
}

const mostCalls = 200;

/** `rampart acceptance`: tests a deployed CA as its callers and its operator use it. */
export function acceptanceCommand(terminal: Terminal): Command {
  const acceptance = addExitCodes(new Command("acceptance"), {
    attention: "The worst row needs attention.",
    broken: "A row is broken.",
  });
  return addPlaceOptions(acceptance)
    .description(
      "play against a deployed CA, and report what works; issues certificates of one identity",
    )
    .requiredOption("--url <url>", "the CA as its callers reach it, such as https://ca.example.com")
    .requiredOption("--token-file <file>", "the token of the identity that gets the certificates")
    .addOption(
      new Option("--for <platform>", "what the CA runs on").choices(platforms).default("serve"),
    )
    .option("--trust-domain <name>", "the trust domain of the CA", "cluster.local")
    .option("--ca <file>", "the roots of the server's own certificate, instead of the system's")
    .option("--elsewhere <url>", "another address of the CA, whose bundle is compared")
    .option("--refused-token-file <file...>", "tokens to refuse: ended, or of another audience")
    .option("--audience <name>", "whom a JWT-SVID is for", "rampart-acceptance")
    .addOption(
      new Option(
        "--wait <duration>",
        "how long the CA is asked to hold an answer; the log may take six times as long",
      )
        .argParser(typedInterval)
        .default(20, "20s"),
    )
    .option("--calls <number>", "the calls of the storm", typedNumber(mostCalls), 100)
    .option("-y, --yes", "do not ask before the storm")
    .option("--html <file>", "write the report as one file of HTML as well")
    .option("--sign <file>", "a private key, PEM: sign that file, and write <html file>.sig")
    .option("--json", "print JSON")
    .action((options: AcceptanceOptions) => accept(terminal, options));
}

const outcomes: Readonly<Record<Verdict, ExitName>> = {
  good: "done",
  skipped: "failed",
  attention: "attention",
  broken: "broken",
};

async function accept(terminal: Terminal, options: AcceptanceOptions): Promise<void> {
  const { sign, html } = options;
  if (sign !== undefined && html === undefined) throw usageError("--sign: give --html as well");
  const key = sign === undefined ? undefined : await readKey(sign);
  const deployed = new Deployed(await partsOf(terminal, options));
  const refused = await Promise.all((options.refusedTokenFile ?? []).map(TokenFile.read));
  const rows = rowsOf(options, refused, await confirmedCalls(terminal, options));
  const played = await playRows(rows, deployed, (doing, work) =>
    terminal.progress(doing, work, options),
  ).finally(() => deployed.close());
  const report: Report = {
    url: deployed.parts.url,
    platform: options.for,
    identity: deployed.identity,
    at: terminal.clock(),
    program: `rampart ${build}`,
    worst: worstVerdict(played),
    rows: played,
    latencies: Object.fromEntries(deployed.latencies),
  };
  if (html !== undefined) {
    const page = Buffer.from(await reportPage(report));
    await write(html, page);
    if (key) await write(`${html}.sig`, signOctets(digestFor(key), page, key));
  }
  terminal.answer(report, options, () => formatReport(terminal, report));
  terminal.exitWith(exitCodes[outcomes[report.worst]]);
}

const write = (path: string, content: Uint8Array): Promise<void> =>
  orOperatorError(() =>
    AtomicFile.replace(path, content, {
      mode: 0o644,
      give: (file) => StoreOwner.leaveFile(file, dirname(path)),
    }),
  );

async function readKey(file: string): Promise<KeyObject> {
  const pem = await PemFile.read(file);
  try {
    return createPrivateKey(pem);
  } catch (cause) {
    throw new OperatorError(`${file} holds no private key in PEM without a passphrase`, { cause });
  }
}

/** The default digest of `openssl pkeyutl -rawin` for a key; `null` for a key that signs a message as it is. */
const digestFor = ({ asymmetricKeyType: type }: KeyObject): string | null =>
  type === "ec" || type === "rsa" ? "sha256" : null;

async function partsOf(terminal: Terminal, options: AcceptanceOptions): Promise<DeployedParts> {
  const { trustDomain, for: platform } = options;
  const url = options.url.replace(/\/+$/, "");
  if (!isSafeToFetch(url)) throw usageError("--url must be an https URL: a token is sent there");
  const token = await TokenFile.read(options.tokenFile);
  const roots = await PemFile.readRoots(options.ca);
  const fetch = NodeFetch.trusting(roots);
  return { url, token, trustDomain, platform, roots, fetch, terminal };
}

/** The rows in their order: the log is read before the first certificate, and after the last. */
function rowsOf(
  options: AcceptanceOptions,
  refused: readonly string[],
  calls: number | undefined,
): readonly Row[] {
  const { ca, elsewhere, audience, wait: waitSeconds } = options;
  const log = logRows(ca, 6 * waitSeconds);
  return [
    ...connectionRows,
    log.before,
    ...callRows(refused),
    ...documentRows({ elsewhere, audience, waitSeconds }),
    stormRow(calls),
    log.after,
    ...operatorRows(options),
  ];
}

/**
 * Asks for a confirmation of the storm, unless `--yes`.
 * @returns The number of its calls; `undefined` if nobody confirms.
 */
async function confirmedCalls(
  terminal: Terminal,
  { yes, calls, url }: AcceptanceOptions,
): Promise<number | undefined> {
  if (yes) return calls;
  if (!terminal.isAttended) return undefined;
  const answer = await terminal.ask(`Ask ${url} for ${calls} certificates at once, too? [y/N] `);
  return /^y(es)?$/i.test(answer?.trim() ?? "") ? calls : undefined;
}
