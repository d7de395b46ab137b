"""The outermost edge of the command line: every way that a command can end becomes an exit code here.

It knows endings only. It must never know a command; and it imports nothing heavy before its first `try`, so
that Ctrl-C is quiet from the start.
"""

from typing import TYPE_CHECKING, Final

from governor.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    import click

    from governor.cli.options import Settings

# Set by the scripts of `governor completion`; it says which shell asks, and for what.
COMPLETION: Final = "_GOVERNOR_COMPLETE"


def main() -> int:
    """Run the command that ``sys.argv`` names; gives the exit code."""
    try:
        return _run()
    except KeyboardInterrupt:
        import signal

        from governor.cli.dying import die_of

        # A shell starts the next line after the ^C by itself, and ends a loop only if we die of it.
        return die_of(signal.SIGINT)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("governor."):
            raise
        import sys

        # Installed as the library that programs use, which must not bring all that the command needs.
        sys.stderr.write(
            f"governor: the package {error.name} is missing, which the command needs and programs do not: "
            "pip install 'governord[daemon]', or '.[daemon]' in a checkout\n"
        )
        return Exit.USAGE


def _run() -> int:
    from governor import garbage

    garbage.loading()
    import click

    from governor.cli.options import Settings
    from governor.cli.output import complain, complain_json, give_up_what_is_unwritten, tolerate_any_text

    tolerate_any_text()
    settings = Settings()
    try:
        return _command(settings)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        if settings.json:
            complain_json(error.exit_code, error.format_message())
        else:
            complain(f"{_usage(error)}governor: {error.format_message()}")
        return error.exit_code
    except CommandError as error:
        if settings.json:
            complain_json(error.exit, error.sentence, reason=error.reason, retry=error.retry)
        else:
            complain(error.message)
        return error.exit
    except BrokenPipeError:
        return Exit.BROKEN_PIPE
    except OSError as error:
        # Whatever the system refused and nobody below had better words for.
        complain(f"governor: {error}")
        return Exit.SYSTEM_REFUSED
    except ModuleNotFoundError:
        raise  # also of what a command imports for itself
    except Exception:  # noqa: BLE001 - the last stop: whatever comes here was foreseen by nobody
        import traceback

        complain(f"{traceback.format_exc()}governor: this is a bug: please report it with the lines above")
        return Exit.BUG
    finally:
        give_up_what_is_unwritten()


def _usage(error: "click.ClickException") -> str:
    """How the command is called, and where more of that is, in lines before what is wrong."""
    from click import UsageError

    if not isinstance(error, UsageError) or error.ctx is None:
        return ""
    return f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n\n"


def _command(settings: "Settings") -> int:
    """What `click.Group.main` does, but for the endings, which it would decide by itself."""
    import os
    import sys

    from governor.cli.commands import governor

    if instruction := os.environ.get(COMPLETION):
        from governor.cli import shells

        return shells.answer(instruction, settings)
    # All commands share these settings: what was said before a name holds after it, and for how an error looks.
    with governor.make_context("governor", sys.argv[1:], obj=settings) as context:
        ending = governor.invoke(context)
    return ending if isinstance(ending, int) else Exit.OK
