// top_screen.c -- draws `trireme top` on a terminal with ncurses, and takes its keys. cmd/top.c calls it. The lines come
// from monitor/top/.
#include "cmd/top.h"

#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <string.h>

enum { PAGE_LINES = 10 };

// ---- Drawing

static void set_colours(void)
{
    static const short mark[TOP_MARKS] = {COLOR_CYAN,  COLOR_YELLOW, COLOR_MAGENTA,
                                          COLOR_GREEN, COLOR_BLUE,   COLOR_RED};
    if (!has_colors()) return;
    start_color();
    use_default_colors();
    init_pair(TOP_GOOD, COLOR_GREEN, -1);
    init_pair(TOP_BAD, COLOR_RED, -1);
    for (int i = 0; i < TOP_MARKS; i++) init_pair((short)(TOP_MARK + i), mark[i], -1);
}

static attr_t attributes_of(int tone)
{
    const attr_t colour = has_colors() ? (attr_t)COLOR_PAIR(tone) : A_NORMAL;
    if (tone == TOP_TITLE) return A_BOLD;
    if (tone == TOP_SOFT) return A_DIM;
    if (tone == TOP_CHOSEN) return A_REVERSE;
    if (tone == TOP_BAD) return colour | A_BOLD;
    return tone == TOP_PLAIN ? A_NORMAL : colour;
}

// Lines that begin below the screen are left out.
static void draw(const text *lines)
{
    int row = 0;
    erase();
    move(0, 0);
    attrset(A_NORMAL);
    for (const char *at = lines->chars; *at && row < LINES;) {
        const size_t plain = strcspn(at, "\n\x01\x02\x03\x04\x05\x06\x0e\x0f\x10\x11\x12\x13");
        addnstr(at, (int)plain);
        at += plain;
        if (*at == '\n') {
            attrset(A_NORMAL);
            move(++row, 0);
        } else if (*at) {
            attrset(attributes_of(*at));
        }
        at += *at != 0;
    }
    refresh();
}

// ---- Keys

static int clamp(int value, int most)
{
    return value < 0 || most < 0 ? 0 : value > most ? most : value;
}

// How far the list can be scrolled: its rows, which are as many as the run has ranks at most.
static int most_rows(const top_list *t, const top_settings *s)
{
    return t->count ? t->view[s->run]->ranks : 0;
}

// Returns false where the key ends the program.
static bool take_key(int key, const top_list *t, top_settings *s)
{
    const int runs = (int)t->count;
    if (key == 'q' || key == 'Q') return false;
    if (key == '?' || key == 'h') s->help = !s->help;
    if (key >= '1' && key < '1' + TOP_PAGES) s->page = (top_page)(key - '1');
    if (key == '\t') s->page = (top_page)((s->page + 1) % TOP_PAGES);
    if (key == 's') s->sort = (top_sort)((s->sort + 1) % TOP_SORTS);
    if (key == KEY_RIGHT) s->run = clamp(s->run + 1, runs - 1);
    if (key == KEY_LEFT) s->run = clamp(s->run - 1, runs - 1);
    const int by = key == KEY_DOWN    ? 1
                   : key == KEY_UP    ? -1
                   : key == KEY_NPAGE ? PAGE_LINES
                   : key == KEY_PPAGE ? -PAGE_LINES
                                      : 0;
    s->first = clamp(s->first + by, most_rows(t, s));
    return true;
}

// ---- The program

static status show_screen(top_list *t, int every_ms, err *e)
{
    status result = OK;
    text lines = {0};
    top_settings s = {.is_ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0};
    for (int key = ERR;; key = getch()) {
        // A key is answered with what was read before.
        if (key == ERR) TRY(top_list_refresh(t, e));
        if (key != ERR && !take_key(key, t, &s)) break;
        if (s.page == TOP_DEVICES) top_list_read_devices(t);
        s.devices = t->devices.chars;
        s.width = COLS;
        s.height = LINES;
        text_clear(&lines);
        TRY(top_add(t->run, (int)t->count, &s, &lines, e));
        draw(&lines);
        timeout(every_ms);
    }
done:
    text_clear(&lines);
    return result;
}

status top_screen_show(top_list *t, double every_s, err *e)
{
    setlocale(LC_CTYPE, "");
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (!screen) return err_set(e, E_IO, "the terminal is not known: set TERM, or use --once");
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    set_colours();
    const status result = show_screen(t, (int)(every_s * 1000), e);
    endwin();
    delscreen(screen);
    return result;
}
