"""Signing in at an OIDC issuer: people are sent there, and come back with a code."""

from __future__ import annotations

import hmac

from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue

from console.asking.issuer import ON_THE_WAY_S, Issuer
from console.context import Context
from console.pages.sign_in import let_in, local, page, with_cookie
from lakequeue.errors import LakequeueError

BACK = "/sign-in/back"
"""Where an issuer sends people back to."""
_COOKIE = "lakequeue_console_on_the_way"


def pages(context: Context) -> Blueprint:
    """The pages."""
    made = Blueprint("sign_in_elsewhere", __name__)

    @made.get("/sign-in/with")
    def away() -> ResponseReturnValue:
        there = local(request.args.get("next", "/"))
        if context.issuer is None:
            return page(context, "There is no issuer to sign in at.", there), 404
        try:
            url, state = context.issuer.begin(there)
        except LakequeueError as error:
            return page(context, error.detail, there), 503
        response = Response(status=303, headers={"Location": url})
        # Lax: the issuer is another site, and people come back from there by a link.
        response.set_cookie(
            _COOKIE,
            state,
            max_age=int(ON_THE_WAY_S),
            path="/sign-in",
            httponly=True,
            samesite="Lax",
            secure=_is_secure(context.issuer),
        )
        return response

    @made.get(BACK)
    def back() -> ResponseReturnValue:
        state, issuer = request.args.get("state", ""), context.issuer
        mine = request.cookies.get(_COOKIE, "")
        if issuer is None:
            return page(context, "There is no issuer to sign in at.", "/"), 404
        if not mine or not hmac.compare_digest(mine.encode(), state.encode()):
            # Under another name of the console the browser keeps other cookies.
            at = issuer.client.callback.removesuffix(BACK)
            told = (
                f"This browser did not begin to sign in. Open the console at `{at}`, and try again."
            )
            return page(context, told, "/"), 403
        try:
            token, there = issuer.end(request.args)
            session = let_in(context, token.text, token.lasts_s)
        except LakequeueError as error:
            told = f"{error.detail} → {error.hint}" if error.hint else error.detail
            response = Response(
                page(context, told, "/"), 401, content_type="text/html; charset=utf-8"
            )
        else:
            # A page, and no redirect: what the issuer has begun carries no cookie of ours.
            response = Response(
                render_template("onward.html", there=there, title="You are signed in"),
                content_type="text/html; charset=utf-8",
            )
            with_cookie(response, session, secure=_is_secure(issuer))
        response.delete_cookie(_COOKIE, path="/sign-in", httponly=True, samesite="Lax")
        return response

    return made


def _is_secure(issuer: Issuer) -> bool:
    return issuer.client.callback.startswith("https:")
