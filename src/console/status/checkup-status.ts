import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { AuthorityView } from "../../ca/authority-view.ts";
import { ofSigner, type Severity, worstFirst } from "../../ca/checkup/finding.ts";
import { storeFindings } from "../../ca/checkup/store-checkup.ts";
import {
  type Checkup,
  CheckupSchema,
  Finding_Severity as Said,
} from "../../gen/rampart/status/v1/status_pb.ts";

const severities: Readonly<Record<Severity, Said>> = {
  note: Said.NOTE,
  warning: Said.WARNING,
  error: Said.ERROR,
};

/** What the records of every signer tell. `rampart doctor` also looks at what only a terminal can reach. */
export function checkupStatus(
  views: ReadonlyMap<string, AuthorityView>,
  inceptionDate: string | undefined,
  now: Date,
): Checkup {
  const found = [...views].flatMap(([name, { store }]) =>
    storeFindings(store, { inceptionDate, now }).map((each) => ofSigner(name, each)),
  );
  return create(CheckupSchema, {
    at: timestampFromDate(now),
    findings: worstFirst(found).map((each) => ({ ...each, severity: severities[each.severity] })),
  });
}
