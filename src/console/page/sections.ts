import type { GetStatusResponse } from "../../gen/rampart/status/v1/status_pb.ts";
import { authorities } from "./authorities.ts";
import { checkup } from "./checkup.ts";
import type { Markup } from "./format.ts";
import { issuance } from "./issuance.ts";
import { issuers } from "./issuers.ts";
import { overview } from "./overview.ts";
import { trust } from "./trust.ts";

/** A part of the page that is a function of the status. The script renders it anew when that changes. */
export interface Section {
  readonly id: string;
  /** Absent for the part whose headings say enough. */
  readonly heading?: string;
  readonly render: (status: GetStatusResponse) => Markup;
}

/** These parts in the order of the page. */
export const sections: readonly Section[] = [
  { id: "overview", render: overview },
  { id: "authorities", heading: "Authorities", render: authorities },
  { id: "certificates", heading: "Certificates", render: issuance },
  { id: "trust", heading: "Trust bundle", render: trust },
  { id: "issuers", heading: "Issuers", render: issuers },
  { id: "checkup", heading: "Checkup", render: checkup },
];
