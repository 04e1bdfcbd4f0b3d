import type { Command } from "commander";
import { mintAuthority } from "../../../ca/mint.ts";
import { askUpstream } from "../../../ca/upstream/ask-upstream.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { lastSignature } from "../../../pki/authority/rotation.ts";
import { nextSchedule, type Schedule } from "../../../pki/authority/schedule.ts";
import {
  nextSigningAuthority,
  type SigningAuthority,
  signingAuthorityAt,
} from "../../../pki/authority/signing-authority.ts";
import {
  openStore,
  type Session,
  type SessionOptions,
  withSession,
} from "../../session/session.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import { type ConfirmationOptions, confirm } from "../../terminal/questions.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { formatInstant, shortId } from "../../terminal/text.ts";
import { backupStep, planStep } from "./next-verbs.ts";
import { requireAuthority, requireRootHere } from "./requirements.ts";
import { printStoreSummary } from "./store-summary.ts";

interface RotateOptions extends SessionOptions, ConfirmationOptions {}

/** `rampart authority rotate`. */
export function addRotate(command: Command, terminal: Terminal): void {
  command
    .description(
      "mint the successor now instead of when it is due; it signs once every verifier has its root",
    )
    .option("-y, --yes", "do not ask for confirmation, as a script or a cron job needs it")
    .action((options: RotateOptions) =>
      withSession(terminal, options, (s) => rotateNow(s, options)),
    );
}

export async function rotateNow(session: Session, { yes }: RotateOptions): Promise<void> {
  const { terminal, mint, now, isDry } = session;
  const store = await openStore(session);
  requireAuthority(store);
  const authorities = store.issuers.map(({ authority }) => authority);
  requireNoSuccessor(authorities, now);
  requireRootHere(session);
  const schedule = nextSchedule(mint.phaseLengths, lastSignature(authorities), now);
  const isUpstream = mint.authorityRoot === "upstream";
  const start = isUpstream ? askedSentence : mintedSentence(schedule);
  const question = `${signerSentence(authorities, now)}\n${start}\nRotate the ${session.place}?`;
  await confirm(terminal, question, { yes: yes || isDry });
  if (isUpstream) {
    await terminal.progress("asking the CA upstream", () =>
      orOperatorError(() => askUpstream(mint, undefined, now)),
    );
  } else {
    await mintAuthority(mint, schedule);
  }
  await printStoreSummary(session);
  if (!isDry) terminal.noticeNext([planStep(session), backupStep(session)]);
}

function requireNoSuccessor(authorities: readonly SigningAuthority[], now: Date): void {
  const prepared = nextSigningAuthority(authorities, now);
  if (!prepared) return;
  const when = formatInstant(prepared.schedule.signsFrom);
  throw new OperatorError(`a successor is prepared: ${shortId(prepared.id)} signs from ${when}`);
}

function signerSentence(authorities: readonly SigningAuthority[], now: Date): string {
  const signer = signingAuthorityAt(authorities, now);
  if (!signer) return "No authority signs now.";
  return `${shortId(signer.id)} signs now, until ${formatInstant(signer.schedule.signsUntil)} at the latest.`;
}

const mintedSentence = ({ publishedFrom, signsFrom, signsUntil }: Schedule): string =>
  `A new authority is minted. It is published from ${formatInstant(publishedFrom)}, and signs from ${formatInstant(signsFrom)} until ${formatInstant(signsUntil)}.`;

const askedSentence =
  "The CA upstream is asked for an intermediate, which signs once every verifier has its root.";
