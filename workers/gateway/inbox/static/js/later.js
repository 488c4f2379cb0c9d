// What the list of requests does not need: the other pages, push messages, notifications, passkeys.

import { signAnswer } from "./passkeys.js";
import { renewPush } from "./push.js";
import { Telling } from "./telling.js";
import * as account from "./pages/account.js";
import * as grants from "./pages/grants.js";
import * as next from "./pages/next.js";
import * as notifications from "./pages/notifications.js";
import * as request from "./pages/request.js";
import * as session from "./pages/session.js";
import * as sessions from "./pages/sessions.js";
import * as signIn from "./pages/sign-in.js";

export const PAGES = { account, grants, next, notifications, request, session, sessions, signIn };
export const TOOLS = { renewPush, signAnswer, Telling };
