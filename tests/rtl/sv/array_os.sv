// Output-stationary array. One word of a column of A and one of a row of B enter per cycle; skewing is done here. After the
// last word of a fold each column gives its results, bottom row first, one a cycle.
module array_os #(
    parameter int ROWS = 4,
    parameter int COLS = 4,
    parameter int A_W = 8,
    parameter int B_W = 8,
    parameter int ACC_W = 32,
    parameter int ROW_W = $clog2(ROWS + 1)
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic                  valid,
    input  logic                  first,
    input  logic                  last,
    input  logic [  ROWS*A_W-1:0] x,
    input  logic [  COLS*B_W-1:0] y,
    output logic [      COLS-1:0] out_valid,
    output logic [COLS*ROW_W-1:0] out_row,
    output logic [COLS*ACC_W-1:0] out_data
);
    logic v[ROWS][COLS+1], f[ROWS][COLS+1], l[ROWS][COLS+1];
    logic signed [A_W-1:0] a[ROWS][COLS+1];
    logic signed [B_W-1:0] b[ROWS+1][COLS];
    logic signed [ACC_W-1:0] drain[ROWS+1][COLS];
    logic [ROW_W-1:0] left[COLS];  // results that have yet to leave the column

    for (genvar r = 0; r < ROWS; r++) begin : g_left_edge
        delay_line #(.WIDTH(A_W + 3), .DEPTH(r)) skew (
            .clk, .rst,
            .d({valid, first, last, x[r*A_W+:A_W]}),
            .q({v[r][0], f[r][0], l[r][0], a[r][0]})
        );
    end
    for (genvar c = 0; c < COLS; c++) begin : g_top_edge
        delay_line #(.WIDTH(B_W), .DEPTH(c)) skew (.clk, .rst, .d(y[c*B_W+:B_W]), .q(b[0][c]));
        assign drain[0][c] = '0;
    end

    for (genvar r = 0; r < ROWS; r++) begin : g_row
        for (genvar c = 0; c < COLS; c++) begin : g_col
            // a register whose own result has left takes no more: the next fold's result may be in it already
            logic shift;
            assign shift = left[c] != 0 && ROWS - int'(left[c]) < r;
            pe_os #(.A_W(A_W), .B_W(B_W), .ACC_W(ACC_W)) pe (
                .clk, .rst,
                .valid_i(v[r][c]), .first_i(f[r][c]), .last_i(l[r][c]), .a_i(a[r][c]), .b_i(b[r][c]),
                .valid_o(v[r][c+1]), .first_o(f[r][c+1]), .last_o(l[r][c+1]), .a_o(a[r][c+1]), .b_o(b[r+1][c]),
                .shift_i(shift), .drain_i(drain[r][c]), .drain_o(drain[r+1][c])
            );
        end
    end

    for (genvar c = 0; c < COLS; c++) begin : g_drain
        logic captured;
        assign captured = v[ROWS-1][c] && l[ROWS-1][c];
        always_ff @(posedge clk) begin
            if (rst) left[c] <= '0;
            else if (captured) left[c] <= ROW_W'(ROWS);
            else if (left[c] != 0) left[c] <= left[c] - 1'b1;
            assert (rst || !captured || left[c] <= 1) else $error("a fold ended before the one before it had left");
        end
        assign out_valid[c] = left[c] != 0;
        assign out_row[c*ROW_W+:ROW_W] = left[c] - 1'b1;
        assign out_data[c*ACC_W+:ACC_W] = drain[ROWS][c];
    end
endmodule
