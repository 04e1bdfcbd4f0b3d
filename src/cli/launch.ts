#!/usr/bin/env node
/** The start of the installed program. */
import { isNodeNewEnough } from "./versions.ts";

if (isNodeNewEnough("rampart")) void import("./main.ts");
